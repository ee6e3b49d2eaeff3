"""`watcher reconcile`: a source as it is now, compared with the events as they are now."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final

import anyio
import typer

from store.fates import Fate
from watcher.cli.api_client import ApiClient, part_of_path
from watcher.cli.commands import command
from watcher.cli.failures import CommandFailed, ExitCode
from watcher.cli.output import Show
from watcher.cli.tables import Columns, ids, properties, sentences, states, table

top = typer.Typer()
PAUSE: Final = 0.2
"""Seconds between two questions for the result."""
COLUMNS: Columns = {**ids(item="item"), **states(state="state"), **sentences(explanation="sentence"), **ids(page="url")}


@command(top, "reconcile")
async def _reconcile(
    api: ApiClient,
    show: Show,
    name: Annotated[str, typer.Argument(help="The watcher's name.")],
    since: Annotated[str | None, typer.Option(help="Only items written from this time on.")] = None,
    until: Annotated[str | None, typer.Option(help="Only items written before this time.")] = None,
    limit: Annotated[int, typer.Option(min=0, max=1000, help="Name so many differences.")] = 100,
) -> None:
    """Compare a watcher's source with what was reported and loaded. Exits with 1 if an item was lost or reported twice."""
    path = f"/api/v2/watchers/{part_of_path(name)}/reconcile"
    asked = {"since": since, "until": until, "limit": limit}
    begun = (await api.send("POST", path, body=asked)).json()
    while begun["state"] == "running":
        await anyio.sleep(PAUSE)
        begun = await api.get(f"{path}/{begun['id']}")
    if begun["result"] is None:
        raise CommandFailed(f"{name} was not reconciled: {begun['error']}")
    result = begun["result"]
    show(result, lambda: properties(_summary(result)))
    if result["items"]:
        show.more(lambda: table(result["items"], COLUMNS))
    if result["differences"]["not_reported"] or result["differences"]["reported_twice"]:
        raise typer.Exit(ExitCode.FAILED)


def _summary(result: Mapping[str, Any]) -> Mapping[str, Any]:
    present = {*Fate, "reported_twice"}
    differences = {kind: count for kind, count in result["differences"].items() if count and kind in present}
    exact = "yes" if result["exact"] else f"no: {result['why_not']}"
    return {**{name: result[name] for name in ("source", "reported", "loaded")}, **differences, "exact": exact}
