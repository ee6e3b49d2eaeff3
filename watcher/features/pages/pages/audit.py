"""The page of the audit: newest first, around the entry of one write, or what changed in the configuration."""

from __future__ import annotations

from typing import Literal

from fastapi import APIRouter, HTTPException, Request, Response

from store.processes import audit
from store.processes.audit import OF_THE_CONFIGURATION, AuditEntry
from watcher.configuration.reload_outcome import ReloadRefused, Result
from watcher.features.pages.changes_in_words import configuration_in_words
from watcher.features.pages.forms import go_to
from watcher.features.pages.parts import ROWS, Before, ListPart
from watcher.features.pages.rendering import Pages
from watcher.serving.api.context import Context
from watcher.serving.api.routes.logs import WriteId
from watcher.serving.api.sign_in.auth import Admin

router = APIRouter(include_in_schema=False)


@router.get("/audit")
async def all_entries(
    view: Pages,
    before: Before = None,
    write_id: WriteId = None,
    about: Literal["configuration"] | None = None,
    read: Result | None = None,
) -> Response:
    """Show the audit, or only its changes of the configuration. With a `write_id`, show its entries, marked, and those before."""
    actions = () if about is None else OF_THE_CONFIGURATION
    async with view.context.database.reading() as connection:
        marked = [] if write_id is None else await audit.latest(connection, limit=ROWS, write_id=write_id)
        newest = marked[0].id + 1 if marked else before
        rows = await audit.latest(connection, limit=ROWS + 1, before=newest, actions=actions)
    part: ListPart[AuditEntry] = ListPart.of(rows, lambda entry: entry.id)
    return view.page(
        "audit.html",
        entries=part,
        changes={
            each.id: configuration_in_words(each.detail) for each in part.rows if each.action in OF_THE_CONFIGURATION
        },
        before=before,
        write_id=write_id,
        about=about,
        read=read,
        may_reload=view.context.process.reload is not None,
        marked={entry.id for entry in marked},
    )


@router.post("/audit/reload")
async def reload(request: Request, context: Context, actor: Admin) -> Response:
    """Read the configuration again and apply it, or show everything that is wrong with it; then nothing has changed."""
    if context.process.reload is None:
        raise HTTPException(409, "this process has no configuration to read again")
    try:
        outcome = await context.process.reload(actor.name)
    except ReloadRefused as refused:
        raise HTTPException(422, f"nothing has changed, because of this: {refused}") from None
    return go_to(request, "audit", about="configuration", read=outcome.result)
