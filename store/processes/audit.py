"""The audit: who did what through the API or the command line, written in the transaction of the act itself."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from sqlalchemy import bindparam, insert, select, true
from sqlalchemy.ext.asyncio import AsyncConnection

from store.database.access import audit
from store.database.column_types import database_now
from store.database.paging import PageRequest, ResultPage, equal, newest, page


@dataclass(frozen=True, kw_only=True)
class AuditEntry:
    """One entry of the audit; `detail` is JSON text."""

    id: int
    at: datetime
    actor: str
    action: str
    target: str
    detail: str
    write_id: str | None


GIVEN: Final = {
    name: bindparam(name, type_=audit.c[name].type) for name in ("actor", "action", "target", "write_id", "detail")
}
"""The columns of an entry beside its time, each with a parameter of its name."""
_RECORD: Final = insert(audit).values(at=database_now(), **GIVEN)


RELOADED: Final = "configuration.reload"
APPLIED_AT_START: Final = "configuration.apply"
OF_THE_CONFIGURATION: Final = (RELOADED, APPLIED_AT_START)
"""The actions by which a configuration takes the place of another."""


async def record(
    connection: AsyncConnection,
    actor: str,
    action: str,
    target: str,
    detail: Mapping[str, Any] | None = None,
    write_id: str | None = None,
) -> None:
    """Add an entry. `action` is a dotted name (`asset_store.set`), `target` names what was acted on."""
    await record_all(connection, [entry(actor, action, target, detail, write_id)])


def entry(
    actor: str, action: str, target: str, detail: Mapping[str, Any] | None = None, write_id: str | None = None
) -> Mapping[str, Any]:
    """Return an entry for `record_all`."""
    text = json.dumps(detail or {})
    return {"actor": actor, "action": action, "target": target, "write_id": write_id, "detail": text}


async def record_all(connection: AsyncConnection, entries: Sequence[Mapping[str, Any]]) -> None:
    """Add entries, of no act or of many."""
    if entries:
        await connection.execute(_RECORD, entries)


async def listed(connection: AsyncConnection, write_id: str | None, window: PageRequest) -> ResultPage[AuditEntry]:
    """Return entries, newest first; only those of one write, if it is given."""
    query = select(audit).where(equal(audit.c.write_id, write_id))
    newest_first = PageRequest(limit=window.limit, offset=window.offset, order_by=("-id",))
    return await page(connection, query, newest_first, {"id": audit.c.id}, AuditEntry)


async def latest(
    connection: AsyncConnection,
    *,
    limit: int,
    before: int | None = None,
    write_id: str | None = None,
    actions: Sequence[str] = (),
) -> Sequence[AuditEntry]:
    """Return the newest entries with ids below `before`; only those of one write, or of these actions, if they are given."""
    of_actions = audit.c.action.in_(actions) if actions else true()
    query = select(audit).where(equal(audit.c.write_id, write_id), of_actions)
    return await newest(connection, query, audit.c.id, AuditEntry, limit=limit, before=before)


async def newest_of(connection: AsyncConnection, actions: Sequence[str]) -> AuditEntry | None:
    """Return the newest entry of one of these actions."""
    query = select(audit).where(audit.c.action.in_(actions))
    return next(iter(await newest(connection, query, audit.c.id, AuditEntry, limit=1, before=None)), None)
