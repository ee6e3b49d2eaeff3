"""`watcher watchers`, and the top-level commands about a watcher: pause, resume, logs, poll and rewind."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from functools import partial
from typing import Annotated, Any, Final
from urllib.parse import quote

import anyio
import typer

from watcher.cli.api_client import ApiClient, check
from watcher.cli.commands import YesOption, asks, command, confirm, group
from watcher.cli.failures import CommandFailed, ExitCode
from watcher.cli.output import Show
from watcher.cli.tables import Column, Columns, fields, ids, moments, properties, sentences, states, table, texts

watchers = group("watchers", "The watchers and how they are doing.")
rejected = group("rejected", "Rows and files that a watcher rejected.")
top = typer.Typer()
Name = Annotated[str, typer.Argument(help="The watcher's name.")]
MANY: Final = 25
"""The rows of a list from which on its end counts them by state."""
_UNDO = "`--undo` takes it back until something is emitted that was not emitted before"
COLUMNS: Columns = {
    **ids(watcher="name", asset="asset"),
    "state": Column(lambda watcher: "paused" if watcher["paused"] else watcher["state"], "state of a watcher"),
    "watermark": Column(lambda watcher: watcher.get("watermark_in_words") or watcher["watermark"], "text"),
    **moments(**{"last event": "last_event_at"}),
    **texts(error="error"),
}

FINDINGS: Columns = {
    **fields(check="check"),
    **states(level="level"),
    **moments(since="since"),
    **sentences(finding="message", remedy="remedy"),
}

POLLS: Columns = {
    **moments(started="started"),
    **fields(seconds="seconds", found="found", events="committed", times="times"),
    **texts(error="error"),
}
REJECTED: Columns = {
    "key": Column(lambda row: json.dumps(row["key"], ensure_ascii=False)),
    **fields(version="version", column="column"),
    **texts(reason="reason"),
    **moments(rejected="rejected_at"),
}


@command(watchers, "list")
async def list_watchers(api: ApiClient, show: Show) -> None:
    """List the watchers."""
    rows = (await api.get("/api/v2/watchers"))["watchers"]
    show(rows, lambda: table(rows, COLUMNS, "no watcher is configured; `watcher init` writes a first one"))
    if len(rows) >= MANY:
        states = Counter("paused" if watcher["paused"] else watcher["state"] for watcher in rows)
        show.done(
            f"{len(rows):,} watchers: " + ", ".join(f"{count:,} {state}" for state, count in sorted(states.items()))
        )


@command(watchers, "show")
async def show_watcher(api: ApiClient, show: Show, name: Name) -> None:
    """Show one watcher."""
    watcher = await api.get(_path(name))
    show(watcher, lambda: properties(watcher, {"state": "state of a watcher"}))


@command(watchers, "findings")
async def _findings(api: ApiClient, show: Show, name: Name) -> None:
    """List what breaks, or may break, a condition of exact detection, each with its remedy."""
    rows = (await api.get(_path(name) + "/findings"))["findings"]
    show(rows, lambda: table(rows, FINDINGS, f"nothing breaks a condition of exact detection of {name}"))


@command(watchers, "resolve")
async def _resolve(api: ApiClient, show: Show, name: Name) -> None:
    """Drop the findings that stand until somebody has read them, such as a change of the server's history."""
    answer = (await api.send("POST", _path(name) + "/findings/resolve")).json()
    show(answer, lambda: f"{name}: {answer['resolved']} resolved")


@command(watchers, "polls")
async def _polls(api: ApiClient, show: Show, name: Name) -> None:
    """List a watcher's last polls, the newest first. Consecutive polls that found nothing, or failed alike, are one line."""
    rows = (await api.get(_path(name) + "/polls"))["polls"]
    show(rows, lambda: table(rows, POLLS, f"{name} has not polled yet; its first poll comes when a daemon hosts it"))


@command(rejected, "list")
async def _list_rejected(api: ApiClient, show: Show, name: Name) -> None:
    """List the items that a watcher rejected, and why. The oldest come first."""
    rows = await api.all(_path(name) + "/rejected", "rejected")
    show(rows, lambda: table(rows, REJECTED, f"{name} has rejected nothing"))


@command(rejected, "retry")
async def _retry_rejected(api: ApiClient, show: Show, name: Name) -> None:
    """Retry a watcher's rejected items. An item that is gone is forgotten; one that still fails stays rejected."""
    answer = (await api.send("POST", _path(name) + "/rejected/retry")).json()
    number = answer["retried"]
    items = "1 item" if number == 1 else f"{number:,} items"
    show(answer, lambda: f"{name} tries {items} again" if number else f"{name} has kept nothing aside")


@command(watchers, "rename")
async def rename_watcher(
    api: ApiClient,
    show: Show,
    name: Name,
    new: Annotated[str, typer.Argument(help="Its name in the configuration from now on.")],
) -> None:
    """Let a renamed watcher continue from its old position. Do this before its first start under the new name."""
    moved = (await api.send("POST", _path(name) + "/rename", body={"to": new})).json()
    show(moved, lambda: f"{new} goes on from {_in_json(moved['watermark'])}, where {name} was")


@command(top, "pause")
async def _pause(api: ApiClient, show: Show, name: Name) -> None:
    """Pause a watcher. New items are found after `resume`."""
    watcher = (await api.send("POST", _path(name) + "/pause")).json()
    show(watcher, lambda: f"{name} is paused")


@command(top, "resume")
async def _resume(api: ApiClient, show: Show, name: Name) -> None:
    """Let a paused watcher continue from its position."""
    watcher = (await api.send("POST", _path(name) + "/resume")).json()
    show(watcher, lambda: f"{name} goes on")


@command(top, "logs")
async def _logs(
    api: ApiClient,
    show: Show,
    name: Name,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on with what comes.")] = False,
    around: Annotated[str | None, typer.Option(help="The lines around this write (its write_id).")] = None,
    at: Annotated[str | None, typer.Option(help="The lines around this time, as 2026-01-31T12:00:00Z.")] = None,
    lines: Annotated[int, typer.Option("--lines", "-n", min=0, help="Lines before and after, or the last ones.")] = 100,
) -> None:
    """Print a watcher's log. With --json, print one record a line."""
    query = {"around": around, "at": at, "before": lines, "after": lines if around or at else 0}
    if follow:
        await _follow(api, show, name, query)
        return
    answer = await api.send("GET", _path(name) + "/logs", query=query, headers=show.log_headers)
    show.log(answer.text)


async def _follow(api: ApiClient, show: Show, name: str, query: dict[str, Any]) -> None:
    from watcher.host.logs.reader import as_text  # noqa: PLC0415  see watcher.cli

    records = _lines_of_daemon(api, name, query) if api.logs_here is None else _lines_of_files(api, name, query)
    write = show.stream(as_text)
    async with aclosing(records):
        async for record in records:
            write(record)


async def _lines_of_daemon(api: ApiClient, name: str, query: dict[str, Any]) -> AsyncGenerator[Any, None]:
    import httpx  # noqa: PLC0415  see watcher.cli

    given = {**{k: v for k, v in query.items() if v is not None}, "follow": True}
    try:
        async with api.client.stream("GET", _path(name) + "/logs", params=given, timeout=None) as answer:
            if not answer.is_success:
                await answer.aread()
            check(answer)
            async for line in answer.aiter_lines():
                if line.startswith("data: "):
                    yield json.loads(line.removeprefix("data: "))
    except httpx.TransportError as error:
        raise CommandFailed(f"the daemon went away: {error}") from error


async def _lines_of_files(api: ApiClient, name: str, query: dict[str, Any]) -> AsyncGenerator[Any, None]:
    """Read the log files: without a daemon the API runs in this process, where a stream arrives only at its end."""
    from watcher.host.logs.followers import Tail, follow  # noqa: PLC0415
    from watcher.host.logs.paths import watcher_logs  # noqa: PLC0415  see watcher.cli

    assert api.logs_here is not None  # noqa: S101  the caller has looked
    tail = Tail(partial(watcher_logs, api.logs_here, name))
    form = {"Accept": "application/x-ndjson"}
    first = await api.send("GET", _path(name) + "/logs", query=query, headers=form)
    for line in first.text.splitlines():
        yield json.loads(line)
    async with aclosing(follow(tail, anyio.Event())) as more:
        async for records in more:
            for record in records:
                yield record


@command(top, "poll")
async def _poll(
    api: ApiClient,
    show: Show,
    name: Name,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Commit nothing; the only way to poll by hand.")] = False,
) -> None:
    """Show what a watcher's next poll would find. Commits nothing."""
    if not dry_run:
        raise CommandFailed("a watcher polls by itself; add --dry-run to see what it would find", ExitCode.USAGE)
    preview = (await api.send("POST", _path(name) + "/poll", query={"dry_run": True})).json()
    _show_preview(preview, show)


@command(top, "rewind")
async def _rewind(
    api: ApiClient,
    show: Show,
    name: Name,
    to: Annotated[
        str | None, typer.Option(help="A time, an id, `start`, `now`, or `here` after a changed selection.")
    ] = None,
    preview: Annotated[bool, typer.Option("--preview", help="Only count what would follow.")] = False,
    undo: Annotated[
        bool, typer.Option("--undo", help="Undo the last rewind; possible until something else is emitted.")
    ] = False,
    yes: YesOption = False,
) -> None:
    """Move a watcher's position. Everything after it is found again, on purpose. On a terminal you are asked first."""
    if undo == (to is not None):
        raise CommandFailed("give --to, or --undo", ExitCode.USAGE)
    if undo:
        moved = (await api.send("POST", _path(name) + "/rewind/undo")).json()
        show(moved, lambda: f"{name} is back where it was, at {_in_json(moved['watermark'])}; {_stay(moved['events'])}")
        return
    if preview:
        _show_preview(await _previewed(api, name, to), show)
        return
    if asks(yes):
        await _confirm(api, name, to)
    answer = (await api.send("POST", _path(name) + "/rewind", body={"to": to, "preview": False})).json()
    show(answer, lambda: f"{name} goes on from {_in_json(answer['watermark'])}; {_UNDO}")


def _stay(events: int) -> str:
    """Return what becomes of the events between a rewind and its undo."""
    if not events:
        return "nothing was emitted meanwhile"
    return "the event emitted since then stays" if events == 1 else f"the {events:,} events emitted since then stay"


async def _previewed(api: ApiClient, name: str, to: str | None) -> Any:
    return (await api.send("POST", _path(name) + "/rewind", body={"to": to, "preview": True})).json()


async def _confirm(api: ApiClient, name: str, to: str | None) -> None:
    """Ask on stderr whether the effect of a rewind is wanted. Raises `typer.Abort`."""
    watcher = await api.get(_path(name))
    means = meaning(name, to, watcher["watermark"], await _previewed(api, name, to))
    confirm(means, "Rewind?")


def meaning(name: str, to: str | None, watermark: Any, preview: Mapping[str, Any]) -> str:
    """Return the effects of a rewind as sentences."""
    runs = " and ".join(f"{count:,} of {dag_id}" for dag_id, count in preview["runs"].items() if count)
    gone = f"Files that come no more, since they were moved or deleted: {preview['cleaned']:,}.\n"
    return (
        f"{name} stands at {_in_json(watermark)} and is to go on from {to}.\n"
        f"Files or rows that come, also those that were seen before: {preview['items']:,}, in so many events: "
        f"{preview['events']:,}. Jobs that are not made for it do their work twice.\n"
        f"{gone if preview['cleaned'] else ''}"
        f"Runs that follow where nothing else is waited for: {runs or 'none'}.\n"
        f"`watcher rewind {name} --undo` takes it back, until something is emitted that was not emitted before."
    )


def _show_preview(preview: dict[str, Any], show: Show) -> None:
    runs = ", ".join(f"{count} of {dag_id}" for dag_id, count in preview["runs"].items()) or "none"
    gone = {"moved or deleted": preview["cleaned"]} if preview["cleaned"] else {}
    show(preview, lambda: properties({"items": preview["items"], "events": preview["events"], **gone, "runs": runs}))
    if preview["shown"]:
        show.more(lambda: table(preview["shown"], {**fields(count="count"), **texts(watermark="watermark")}))


def _in_json(watermark: Any) -> str:
    return json.dumps(watermark, ensure_ascii=False)


def _path(name: str) -> str:
    return f"/api/v2/watchers/{quote(name, safe='')}"
