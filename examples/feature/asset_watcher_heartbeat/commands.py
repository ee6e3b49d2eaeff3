"""`watcher heartbeat`: the heartbeats that were sent."""

from __future__ import annotations

from watcher.cli.api_client import ApiClient
from watcher.cli.commands import command, group
from watcher.cli.output import Show
from watcher.cli.tables import fields, ids, table

heartbeat = group("heartbeat", "Heartbeats to a dead man's switch.")


@heartbeat.callback()
def _group() -> None:
    """Keep a group with one command a group."""


@command(heartbeat, "beats")
async def beats(api: ApiClient, show: Show) -> None:
    """Show the newest heartbeats, and why one has not arrived."""
    answer = await api.get("/api/v2/x/heartbeat/beats")
    columns = {**ids(at="at"), **fields(failure="failure")}
    show(answer, lambda: table(answer["beats"], columns))
