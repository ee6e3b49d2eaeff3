"""`watcher assets`."""

from __future__ import annotations

from typing import Annotated

import typer

from watcher.cli.api_client import ApiClient
from watcher.cli.commands import Columns, Show, asset_named, command, fields, group, properties, table

assets = group("assets", "The assets, and what is around them.")
Name = Annotated[str, typer.Argument(help="The asset's name.")]
COLUMNS: Columns = {
    **fields(asset="name", uri="uri"),
    "watchers": lambda asset: ", ".join(watcher["name"] for watcher in asset["watchers"]),
    "starts": lambda asset: ", ".join(dag["dag_id"] for dag in asset["scheduled_dags"]),
    "updated by": lambda asset: ", ".join(task["dag_id"] for task in asset["producing_tasks"]),
    "unprocessed": lambda asset: asset["unprocessed"] or None,
    "late": lambda asset: "late" if asset["is_late"] else None,
    "last event": lambda asset: (asset["last_asset_event"] or {}).get("timestamp"),
}

EVENTS: Columns = {
    **fields(event="id", asset="name", at="timestamp"),
    "from": lambda event: event["source_watcher"] or event["source_run_id"],
    "runs": lambda event: ", ".join(f"{run['dag_id']} {run['run_id']}" for run in event["created_dagruns"]) or None,
    "extra": lambda event: event["extra"],
}


@command(assets, "list")
async def list_assets(api: ApiClient, show: Show) -> None:
    """List the assets."""
    rows = await api.all("/api/v2/assets", "assets")
    show(rows, lambda: table(rows, COLUMNS))


@command(assets, "show")
async def show_asset(api: ApiClient, show: Show, name: Name) -> None:
    """Show one asset with all its parts."""
    asset = await asset_named(api, name)
    parts = {heading: part(asset) for heading, part in COLUMNS.items()}
    show(asset, lambda: properties({**parts, "group": asset["group"], "extra": asset["extra"]}))


@command(assets, "events")
async def list_events(
    api: ApiClient,
    show: Show,
    name: Annotated[str | None, typer.Argument(help="Of this asset only.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=100, help="How many.")] = 20,
) -> None:
    """List the newest events: where each came from, and the runs that consumed it."""
    asset_id = None if name is None else (await asset_named(api, name))["id"]
    query = {"asset_id": asset_id, "order_by": "-timestamp", "limit": limit}
    events = (await api.get("/api/v2/assets/events", **query))["asset_events"]
    show(events, lambda: table(events, EVENTS))
