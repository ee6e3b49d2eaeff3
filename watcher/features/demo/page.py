"""The demo's own page: what was written, seen, lost and repeated, and one value with the log line of its last write."""

from __future__ import annotations

from typing import Final

from fastapi import APIRouter, FastAPI, Response
from sqlalchemy.ext.asyncio import AsyncConnection

from store.catalog import assets
from store.errors import NotFound
from store.state import history
from store.state.history import HistoryEntry
from watcher.features.demo.counting import counts_of
from watcher.features.pages.rendering import Pages

router = APIRouter(include_in_schema=False)
TABLE: Final = "orders_table"
KEY: Final = "files_loaded"


def add_page(app: FastAPI) -> None:
    """Add the page to the application."""
    app.router.routes.extend(router.routes)


@router.get("/demo")
async def demo(view: Pages) -> Response:
    """Show how far the demo is. Raises `NotFound` where no demo runs."""
    counts = counts_of(view.context.home)
    if counts is None:
        raise NotFound("no demo runs here; `watcher demo` starts one")
    async with view.context.database.reading() as connection:
        entry = await _written_by_a_job(connection)
    return view.page("demo/page.html", counts=counts, entry=entry)


async def _written_by_a_job(connection: AsyncConnection) -> HistoryEntry | None:
    """Return the count that the jobs keep about the table, as it was last written; None as long as there is none."""
    asset_id = (await assets.ids_by_name(connection)).get(TABLE)
    if asset_id is None:
        return None
    asset = await assets.get(connection, asset_id)
    newest = await history.latest(connection, asset.ref, KEY, limit=1)
    return next((each for each in newest if each.value is not None), None)
