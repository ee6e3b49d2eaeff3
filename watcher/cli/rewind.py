"""`watcher poll` and `watcher rewind`: what a watcher's next poll would find, and from where it goes on."""

from __future__ import annotations

from typing import Annotated, Any
from urllib.parse import quote

import typer

from watcher.cli.api_client import ApiClient
from watcher.cli.commands import Show, command, properties, table
from watcher.cli.failures import Exit, Failure
from watcher.cli.watchers import Name


def register(app: typer.Typer) -> None:
    """The commands that stand at the top."""
    command(app, "poll")(_poll)
    command(app, "rewind")(_rewind)


async def _poll(
    api: ApiClient,
    show: Show,
    name: Name,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Commit nothing; the only way to poll by hand.")] = False,
) -> None:
    """Show what a watcher's next poll would find; commits nothing."""
    if not dry_run:
        raise Failure("a watcher polls by itself; add --dry-run to see what it would find", Exit.USAGE)
    preview = (await api.send("POST", _path(name, "poll"), query={"dry_run": True})).json()
    _show_preview(preview, show)


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
        moved = (await api.send("POST", _path(name, "rewind/undo"))).json()
        show(moved, lambda: f"{name} is back where it was, at {moved['watermark']}")
        return
    answer = (await api.send("POST", _path(name, "rewind"), body={"to": to, "preview": preview})).json()
    if preview:
        _show_preview(answer, show)
    else:
        show(answer, lambda: f"{name} goes on from {answer['watermark']}; `--undo` takes it back until a batch commits")


def _show_preview(preview: dict[str, Any], show: Show) -> None:
    runs = ", ".join(f"{count} of {dag_id}" for dag_id, count in preview["runs"].items()) or "none"
    show(preview, lambda: properties({"items": preview["items"], "events": preview["events"], "runs": runs}))
    if preview["shown"] and not show.as_json:
        columns = {"count": lambda event: event["count"], "watermark": lambda event: event["watermark"]}
        show(preview["shown"], lambda: table(preview["shown"], columns))


def _path(name: str, what: str) -> str:
    return f"/api/v2/watchers/{quote(name, safe='')}/{what}"
