"""The commands `watcher assets …`."""

from __future__ import annotations

from typing import Annotated

import typer

from watcher.cli.api_client import ApiClient
from watcher.cli.commands import asset_named, command, group
from watcher.cli.output import Show
from watcher.cli.plain_text import moment
from watcher.cli.tables import Column, Columns, fields, ids, moments, properties, table
from watcher.host.event_words import event_in_words

assets = group("assets", "The assets, and what is around them.")
Name = Annotated[str, typer.Argument(help="The asset's name.")]
COLUMNS: Columns = {
    **ids(asset="name"),
    **fields(uri="uri"),
    "watchers": Column(lambda asset: ", ".join(watcher["name"] for watcher in asset["watchers"]) or None, "text"),
    "starts": Column(lambda asset: ", ".join(dag["dag_id"] for dag in asset["scheduled_dags"]) or None, "text"),
    "updated by": Column(lambda asset: ", ".join(task["dag_id"] for task in asset["producing_tasks"]) or None, "text"),
    "unprocessed": Column(lambda asset: asset["unprocessed"] or None),
    "late": Column(lambda asset: "late" if asset["is_late"] else None, "state"),
    "last event": Column(lambda asset: moment((asset["last_asset_event"] or {}).get("timestamp"))),
}
EVENTS: Columns = {
    **ids(event="id", asset="name"),
    **moments(at="timestamp"),
    "from": Column(lambda event: event["source_watcher"] or event["source_run_id"]),
    "brings": Column(lambda event: event_in_words(event["extra"] or {}), "text", is_sentence=True),
    "partition": Column(lambda event: event["partition_key"]),
    "runs": Column(
        lambda event: ", ".join(f"{run['dag_id']} {run['run_id']}" for run in event["created_dagruns"]) or None, "text"
    ),
}


@command(assets, "list")
async def list_assets(api: ApiClient, show: Show) -> None:
    """List the assets."""
    rows = await api.all("/api/v2/assets", "assets")
    show(rows, lambda: table(rows, COLUMNS, "no asset is configured; `watcher init` writes a first one"))


@command(assets, "show")
async def show_asset(api: ApiClient, show: Show, name: Name) -> None:
    """Show one asset with all its parts."""
    asset = await asset_named(api, name)
    parts = {heading: column.value(asset) for heading, column in COLUMNS.items()}
    show(asset, lambda: properties({**parts, "group": asset["group"], "extra": asset["extra"]}))


@command(assets, "events")
async def list_events(
    api: ApiClient,
    show: Show,
    name: Annotated[str | None, typer.Argument(help="Of this asset only.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=100, help="How many.")] = 20,
) -> None:
    """List the newest events, with the source of each and the runs that consumed it."""
    asset_id = None if name is None else (await asset_named(api, name))["id"]
    query = {"asset_id": asset_id, "order_by": "-timestamp", "limit": limit}
    events = (await api.get("/api/v2/assets/events", **query))["asset_events"]
    show(
        events,
        lambda: table(events, EVENTS, "no event yet; one comes when a watcher finds something, or when it is posted"),
    )
