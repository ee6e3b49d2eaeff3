"""The page of the audit: newest first, or around the entry of one write."""

from __future__ import annotations

from fastapi import APIRouter, Response

from store.processes import audit
from store.processes.audit import AuditEntry
from watcher.features.pages.parts import ROWS, Before, ListPart
from watcher.features.pages.rendering import Pages
from watcher.serving.api.routes.logs import WriteId

router = APIRouter(include_in_schema=False)


@router.get("/audit")
async def all_entries(view: Pages, before: Before = None, write_id: WriteId = None) -> Response:
    """Show the audit. With a `write_id`, show its entries, marked, and the entries before them."""
    async with view.context.database.reading() as connection:
        marked = [] if write_id is None else await audit.latest(connection, limit=ROWS, write_id=write_id)
        newest = marked[0].id + 1 if marked else before
        rows = await audit.latest(connection, limit=ROWS + 1, before=newest)
    part: ListPart[AuditEntry] = ListPart.of(rows, lambda entry: entry.id)
    ids = {entry.id for entry in marked}
    return view.page("audit.html", entries=part, before=before, write_id=write_id, marked=ids)
