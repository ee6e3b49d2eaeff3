"""`watcher assets`."""

from __future__ import annotations

from typing import Annotated

import typer

from watcher.cli.api_client import ApiClient
from watcher.cli.commands import Columns, Show, asset_named, command, group, properties, table

assets = group("assets", "The assets, and what is around them.")
Name = Annotated[str, typer.Argument(help="The asset's name.")]
COLUMNS: Columns = {
    "asset": lambda asset: asset["name"],
    "uri": lambda asset: asset["uri"],
    "watchers": lambda asset: ", ".join(watcher["name"] for watcher in asset["watchers"]),
    "starts": lambda asset: ", ".join(dag["dag_id"] for dag in asset["scheduled_dags"]),
    "updated by": lambda asset: ", ".join(task["dag_id"] for task in asset["producing_tasks"]),
    "unprocessed": lambda asset: asset["unprocessed"] or None,
    "late": lambda asset: "late" if asset["is_late"] else None,
    "last event": lambda asset: (asset["last_asset_event"] or {}).get("timestamp"),
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
