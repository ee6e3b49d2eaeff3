"""`watcher status`: how everything is doing, with each problem by name, within seconds whatever does not answer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import anyio
import typer

from watcher.cli.api_client import ApiClient
from watcher.cli.commands import command
from watcher.cli.failures import CommandFailed, ExitCode, Unavailable
from watcher.cli.output import Show
from watcher.cli.tables import properties, table
from watcher.features.commands.watchers import COLUMNS

top = typer.Typer()
ASK_DEADLINE: Final = 7.0
"""Seconds for all questions together. The daemon's own limit for its database is shorter."""
_UNAVAILABLE: Final = 503
PARTS: Final = ("metadatabase", "scheduler", "triggerer")


@dataclass(kw_only=True)
class Answers:
    """The answers that came in time. `silences` names what did not answer."""

    health: Mapping[str, Any]
    readiness: Mapping[str, Any]
    watchers: Sequence[dict[str, Any]]
    listed: Sequence[Mapping[str, Any]] | None
    """The list of problems. None: it did not come, and what `/readyz` says stands in for it."""
    silences: Sequence[str]

    def problems(self) -> Iterator[str]:
        """Yield each thing that is wrong."""
        yield from (f"not ready: {reason}" for reason in self.readiness.get("reasons", ()))
        yield from (f"the {part} is unhealthy" for part in PARTS if self.status_of(part) == "unhealthy")
        of_list = (each for each in self.listed or () if each["level"] == "error" and each["kind"] != "not_ready")
        yield from map(_sentence, of_list)
        yield from self.silences

    def warnings(self) -> Iterator[str]:
        """Yield what may become a problem."""
        if self.listed is None:
            yield from self.readiness.get("warnings", ())
        yield from (_sentence(each) for each in self.listed or () if each["level"] == "warning")

    def status_of(self, part: str) -> str | None:
        """Return the status of a part from the daemon's health. None: nothing is known about it."""
        status: str | None = (self.health.get(part) or {}).get("status")
        return status


def _sentence(problem: Mapping[str, Any]) -> str:
    return f"{problem['message']}; {problem['remedy']}" if problem["remedy"] else str(problem["message"])


@command(top, "status")
async def _status(api: ApiClient, show: Show) -> None:
    """Show how everything is doing. Exit code 0: all is well; 1: nobody answers; 6: something is wrong."""
    answers = await _ask(api)
    daemonless = api.logs_here is not None
    where = "none runs here" if daemonless else str(api.client.base_url)
    states = Counter("paused" if watcher["paused"] else watcher["state"] for watcher in answers.watchers)
    problems, warnings = list(answers.problems()), list(answers.warnings())
    if daemonless:
        problems.insert(0, "no daemon runs here; start `watcher run`")
    status = {"daemon": where, **answers.health, "watchers": dict(states), "problems": problems, "warnings": warnings}
    parts = {
        "daemon": where,
        **{part: answers.status_of(part) for part in PARTS},
        "watchers": ", ".join(f"{count} {state}" for state, count in sorted(states.items())),
    }
    show(status, lambda: properties(parts))
    _show_more(show, answers.watchers)
    for problem in problems:
        show.more(partial(str, f"wrong: {problem}"), "red")
    for warning in warnings:
        show.more(partial(str, f"warning: {warning}"), "yellow")
    if problems:
        raise typer.Exit(ExitCode.FAILED if daemonless else ExitCode.UNWELL)


def _show_more(show: Show, watchers: Sequence[dict[str, Any]]) -> None:
    failing = [watcher for watcher in watchers if watcher["error"]]
    in_words = {watcher["name"]: watcher["watermark_in_words"] for watcher in watchers if watcher["watermark_in_words"]}
    if failing:
        show.more(lambda: table(failing, COLUMNS))
    if in_words:
        show.more(lambda: properties(in_words))


async def _ask(api: ApiClient) -> Answers:
    """Ask everything at once. Raises `CommandFailed` when nobody answers, or when the daemon refuses the caller."""
    given: dict[str, Any] = {}
    silences: list[str] = []
    failures: list[CommandFailed] = []

    async def ask(what: str, question: Callable[[ApiClient], Awaitable[Any]]) -> None:
        try:
            with anyio.fail_after(ASK_DEADLINE):
                given[what] = await question(api)
        except TimeoutError:
            silences.append(f"nothing is known of the {what}: no answer within {ASK_DEADLINE:g} s")
        except (Unavailable, ValueError) as error:
            silences.append(f"nothing is known of the {what}: {error}")
        except CommandFailed as error:
            failures.append(error)

    async with anyio.create_task_group() as tasks:
        for what, question in QUESTIONS.items():
            tasks.start_soon(ask, what, question)
    if failures:
        raise failures[0]
    if not given:
        raise CommandFailed(f"{api.client.base_url} answers nothing: {silences[0]}; read the daemon's log")
    return Answers(
        health=given.get("health", {}),
        readiness=given.get("readiness", {}),
        watchers=given.get("watchers", []),
        listed=given.get("problems"),
        silences=silences,
    )


async def _health(api: ApiClient) -> Any:
    return await api.get("/api/v2/monitor/health")


async def _readiness(api: ApiClient) -> Any:
    return (await api.send("GET", "/readyz", accepted=_UNAVAILABLE)).json()


async def _watchers(api: ApiClient) -> Any:
    return (await api.get("/api/v2/watchers"))["watchers"]


async def _problems(api: ApiClient) -> Any:
    return await api.get("/api/v2/problems")


QUESTIONS: Final = {"health": _health, "readiness": _readiness, "watchers": _watchers, "problems": _problems}
