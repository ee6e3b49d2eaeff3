"""`watcher watchers`, and what is said of a watcher at the top: pause, resume, logs, status, poll and rewind."""

from __future__ import annotations

import json
from collections.abc import Iterable
from contextlib import aclosing
from functools import partial
from typing import Annotated, Any
from urllib.parse import quote

import anyio
import httpx
import typer

from watcher.cli.api_client import ApiClient, check
from watcher.cli.commands import Columns, Show, command, fields, group, properties, table
from watcher.cli.failures import Exit, Failure

watchers = group("watchers", "The watchers and how they are doing.")
top = typer.Typer()
Name = Annotated[str, typer.Argument(help="The watcher's name.")]
COLUMNS: Columns = {
    **fields(watcher="name", asset="asset"),
    "state": lambda watcher: "paused" if watcher["paused"] else watcher["state"],
    "watermark": lambda watcher: watcher["watermark"],
    "last event": lambda watcher: watcher["last_event_at"],
    "error": lambda watcher: watcher["error"],
}


@command(watchers, "list")
async def list_watchers(api: ApiClient, show: Show) -> None:
    """List the watchers."""
    rows = (await api.get("/api/v2/watchers"))["watchers"]
    show(rows, lambda: table(rows, COLUMNS))


@command(watchers, "show")
async def show_watcher(api: ApiClient, show: Show, name: Name) -> None:
    """Show one watcher."""
    watcher = await api.get(_path(name))
    show(watcher, lambda: properties(watcher))


@command(watchers, "rename")
async def rename_watcher(
    api: ApiClient,
    show: Show,
    name: Name,
    new: Annotated[str, typer.Argument(help="Its name in the configuration from now on.")],
) -> None:
    """Let a watcher that has another name now go on where it was; before its first start under the new name."""
    moved = (await api.send("POST", _path(name) + "/rename", body={"to": new})).json()
    show(moved, lambda: f"{new} goes on from {moved['watermark']}, where {name} was")


@command(top, "pause")
async def _pause(api: ApiClient, show: Show, name: Name) -> None:
    """Pause a watcher; what comes meanwhile is found after `resume`."""
    watcher = (await api.send("POST", _path(name) + "/pause")).json()
    show(watcher, lambda: f"{name} is paused")


@command(top, "resume")
async def _resume(api: ApiClient, show: Show, name: Name) -> None:
    """Let a paused watcher go on where it was."""
    watcher = (await api.send("POST", _path(name) + "/resume")).json()
    show(watcher, lambda: f"{name} goes on")


@command(top, "logs")
async def _logs(
    api: ApiClient,
    show: Show,
    name: Name,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on with what comes.")] = False,
    around: Annotated[str | None, typer.Option(help="The lines around this write (its write_id).")] = None,
    lines: Annotated[int, typer.Option("--lines", "-n", min=0, help="Lines before and after, or the last ones.")] = 100,
) -> None:
    """Print a watcher's log; with --json a record a line."""
    query = {"around": around, "before": lines, "after": lines if around else 0}
    if follow:
        await _follow(api, show, name, query)
        return
    form = {"Accept": "application/x-ndjson" if show.as_json else "text/plain"}
    answer = await api.send("GET", _path(name) + "/logs", query=query, headers=form)
    typer.echo(answer.text, nl=False)


async def _follow(api: ApiClient, show: Show, name: str, query: dict[str, Any]) -> None:
    if api.logs_here is not None:
        await _follow_files(api, show, name, query)
        return
    given = {**{k: v for k, v in query.items() if v is not None}, "follow": True}
    try:
        async with api.client.stream("GET", _path(name) + "/logs", params=given, timeout=None) as answer:
            if not answer.is_success:
                await answer.aread()
            check(answer)
            async for line in answer.aiter_lines():
                if line.startswith("data: "):
                    _echo([json.loads(line.removeprefix("data: "))], show)
    except httpx.TransportError as error:
        raise Failure(f"the daemon went away: {error}") from error


async def _follow_files(api: ApiClient, show: Show, name: str, query: dict[str, Any]) -> None:
    """Without a daemon the API runs in this process, where a stream arrives only when it ends: read the files."""
    from watcher.logs.paths import watcher_logs  # noqa: PLC0415
    from watcher.logs.reader import Tail, follow  # noqa: PLC0415

    assert api.logs_here is not None  # noqa: S101  the caller has looked
    tail = Tail(partial(watcher_logs, api.logs_here, name))
    form = {"Accept": "application/x-ndjson"}
    first = await api.send("GET", _path(name) + "/logs", query=query, headers=form)
    _echo(map(json.loads, first.text.splitlines()), show)
    async with aclosing(follow(tail, anyio.Event())) as more:
        async for records in more:
            _echo(records, show)


def _echo(records: Iterable[Any], show: Show) -> None:
    from watcher.logs.reader import as_text  # noqa: PLC0415  see watcher.cli

    for record in records:
        typer.echo(json.dumps(record) if show.as_json else as_text(record))


@command(top, "poll")
async def _poll(
    api: ApiClient,
    show: Show,
    name: Name,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Commit nothing; the only way to poll by hand.")] = False,
) -> None:
    """Show what a watcher's next poll would find; commits nothing."""
    if not dry_run:
        raise Failure("a watcher polls by itself; add --dry-run to see what it would find", Exit.USAGE)
    preview = (await api.send("POST", _path(name) + "/poll", query={"dry_run": True})).json()
    _show_preview(preview, show)


@command(top, "rewind")
async def _rewind(
    api: ApiClient,
    show: Show,
    name: Name,
    to: Annotated[str | None, typer.Option(help="A time, an id, `start` or `now`.")] = None,
    preview: Annotated[bool, typer.Option("--preview", help="Only count what would follow.")] = False,
    undo: Annotated[bool, typer.Option("--undo", help="Take the last rewind back, until a batch commits.")] = False,
) -> None:
    """Move a watcher's position; what lies after it is found again, on purpose."""
    if undo == (to is not None):
        raise Failure("give --to, or --undo", Exit.USAGE)
    if undo:
        moved = (await api.send("POST", _path(name) + "/rewind/undo")).json()
        show(moved, lambda: f"{name} is back where it was, at {moved['watermark']}")
        return
    answer = (await api.send("POST", _path(name) + "/rewind", body={"to": to, "preview": preview})).json()
    if preview:
        _show_preview(answer, show)
    else:
        show(answer, lambda: f"{name} goes on from {answer['watermark']}; `--undo` takes it back until a batch commits")


def _show_preview(preview: dict[str, Any], show: Show) -> None:
    runs = ", ".join(f"{count} of {dag_id}" for dag_id, count in preview["runs"].items()) or "none"
    show(preview, lambda: properties({"items": preview["items"], "events": preview["events"], "runs": runs}))
    if preview["shown"] and not show.as_json:
        show(preview["shown"], lambda: table(preview["shown"], fields(count="count", watermark="watermark")))


def _path(name: str) -> str:
    return f"/api/v2/watchers/{quote(name, safe='')}"
