"""`watcher status`: how everything is doing, with each problem by name, within seconds whatever does not answer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Final, NoReturn

import anyio
import typer

from watcher.cli.api_client import ApiClient
from watcher.cli.commands import command
from watcher.cli.failures import CommandFailed, ExitCode, Unavailable
from watcher.cli.output import Show
from watcher.cli.tables import properties, table
from watcher.features.commands.watchers import COLUMNS
from watcher.host.home import STARTING, Life, life

top = typer.Typer()
ASK_DEADLINE: Final = 7.0
"""Seconds for all questions together. The daemon's own limit for its database is shorter."""
_UNAVAILABLE: Final = 503
_APART: Final = timedelta(minutes=1)
"""A heartbeat that is later than a daemon's end by more than this is another one's, however the clocks differ."""
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

    @property
    def starting(self) -> str | None:
        """The sentence of a daemon that answers while it starts."""
        return next((each for each in self.readiness.get("reasons", ()) if each.startswith(STARTING)), None)

    def problems(self) -> Iterator[str]:
        """Yield each thing that is wrong."""
        yield from (f"not ready: {reason}" for reason in self.readiness.get("reasons", ()))
        yield from (f"the {part} is unhealthy" for part in PARTS if _status_of(self.health, part) == "unhealthy")
        of_list = (each for each in self.listed or () if each["level"] == "error" and each["kind"] != "not_ready")
        yield from map(_sentence, of_list)
        yield from self.silences

    def warnings(self) -> Iterator[str]:
        """Yield what may become a problem."""
        if self.listed is None:
            yield from self.readiness.get("warnings", ())
        yield from (_sentence(each) for each in self.listed or () if each["level"] == "warning")


def _sentence(problem: Mapping[str, Any]) -> str:
    return f"{problem['message']}; {problem['remedy']}" if problem["remedy"] else str(problem["message"])


def _while_starting(show: Show, life: Life) -> None:
    _show_absent(show, "starting", f"{STARTING} {_moment(life)}; ask again in a moment", {}, [])


@command(top, "status", while_starting=_while_starting)
async def _status(api: ApiClient, show: Show) -> None:
    """Show how everything is doing. Exit code 0: all is well; 1: nobody answers; 6: something is wrong."""
    answers = await _ask(api)
    if api.home is not None:
        last = life(api.home)
        sentence = _absence(last)
        if leads_elsewhere(answers, last):
            sentence = f"{sentence.rpartition('; ')[0]}; {_elsewhere(answers)}"
        _show_absent(show, "never" if last is None else "stopped", sentence, answers.health, answers.watchers)
    if (starting := answers.starting) is not None:
        _show_absent(show, "starting", starting, answers.health, answers.watchers)
    where = str(api.client.base_url)
    problems, warnings = list(answers.problems()), list(answers.warnings())
    _show(show, where, answers.health, answers.watchers, problems, warnings)
    if problems:
        raise typer.Exit(ExitCode.UNWELL)


def _absence(last: Life | None) -> str:
    """Return that no daemon runs here, and what is known of the last one, in one sentence."""
    if last is None:
        return "no daemon has run here yet; start `watcher run`"
    if last.since is None:
        return "the daemon that ran here has stopped; start `watcher run`"
    if last.stage == "stopped":
        return f"the daemon that ran here stopped at {_moment(last)}; start `watcher run`"
    return f"the daemon that ran here since {_moment(last)} was killed, or its machine failed; start `watcher run`"


def leads_elsewhere(answers: Answers, last: Life | None) -> bool:
    """Whether the heartbeat of the database's leader is of another home's process: none ran here, or it stopped long before."""
    beaten = _heartbeat(answers)
    if beaten is None or _status_of(answers.health, "scheduler") != "healthy":
        return False
    if last is None:
        return True
    return last.stage == "stopped" and last.since is not None and beaten > last.since + _APART


def _heartbeat(answers: Answers) -> datetime | None:
    text = (answers.health.get("scheduler") or {}).get("latest_scheduler_heartbeat")
    return datetime.fromisoformat(text) if text else None


def _elsewhere(answers: Answers) -> str:
    """Return that another process leads, and how many problems the database knows of. Whoever asks that process gets them."""
    errors = sum(each["level"] == "error" and each["kind"] != "not_ready" for each in answers.listed or ())
    known = f", and {errors} {'problem is' if errors == 1 else 'problems are'} known" if errors else ""
    moment = f"{_heartbeat(answers):%Y-%m-%d %H:%M:%S} UTC"
    return f"a process elsewhere leads with the same database (heartbeat of {moment}){known}: ask it (`--url`)"


def _moment(life: Life) -> str:
    return "a moment" if life.since is None else f"{life.since:%Y-%m-%d %H:%M:%S} UTC"


def _show_absent(
    show: Show, daemon: str, sentence: str, health: Mapping[str, Any], watchers: Sequence[dict[str, Any]]
) -> NoReturn:
    """Show that no daemon works here, as the only problem: nothing else can be expected to be well."""
    _show(show, daemon, health, watchers, [sentence], [])
    raise typer.Exit(ExitCode.FAILED)


def _show(
    show: Show,
    daemon: str,
    health: Mapping[str, Any],
    watchers: Sequence[dict[str, Any]],
    problems: Sequence[str],
    warnings: Sequence[str],
) -> None:
    states = Counter("paused" if watcher["paused"] else watcher["state"] for watcher in watchers)
    status = {"daemon": daemon, **health, "watchers": dict(states), "problems": problems, "warnings": warnings}
    parts = {
        "daemon": daemon,
        **{part: _status_of(health, part) for part in PARTS},
        "watchers": ", ".join(f"{count} {state}" for state, count in sorted(states.items())),
    }
    show(status, lambda: properties(parts, dict.fromkeys(PARTS, "state")))
    _show_more(show, watchers)
    for problem in problems:
        show.more(partial(str, f"wrong: {problem}"), "red")
    for warning in warnings:
        show.more(partial(str, f"warning: {warning}"), "yellow")


def _status_of(health: Mapping[str, Any], part: str) -> str | None:
    """Return the status of a part from the daemon's health. None: nothing is known about it."""
    status: str | None = (health.get(part) or {}).get("status")
    return status


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
