"""The replication slot of one watcher: what it must be, what ends it, and how it is made and dropped."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final, Self

from triggers.base import Finding
from triggers.changes.log_position import LogPosition, lsn_of, lsn_text
from triggers.changes.statements import CREATE, CREATE_WITH_FAILOVER, DROP, OPEN_TRANSACTIONS, SLOT
from triggers.errors import SourceBusy, SourceChanged, SourceUnavailable
from triggers.postgres.server.session import Session, StatementLimits
from triggers.shared.postgres.failures import LOCK_TIMEOUT, STATEMENT_TIMEOUT, sqlstate_of

PLUGIN: Final = "pgoutput"
FAILOVER_SINCE: Final = 170_000
"""The server version from which on a standby may have a copy of the slot."""
IN_USE: Final = "55006"


def slot_name(installation: str, watcher: str) -> str:
    """Return the name of a watcher's slot: no two installations, and no two watchers of one, share a slot."""
    return f"watcher_{hashlib.sha256(f'{installation}{watcher}'.encode()).hexdigest()[:12]}"


@dataclass(frozen=True, kw_only=True, slots=True)
class SlotState:
    """The slot and the server's LSNs, in one moment. `confirmed` is None where there is no logical slot."""

    name: str
    is_there: bool
    flushed: int
    inserted: int
    confirmed: int | None
    retained: int
    """Bytes of WAL that the server keeps because of the slot."""
    active_pid: int | None
    fault: str | None
    """Why the slot cannot be read, as the end of a sentence; None: it can."""

    @classmethod
    async def read(cls, session: Session, name: str) -> Self:
        [row] = (await session.fetch(SLOT, name)).rows
        return cls(
            name=name,
            is_there=row["is_there"],
            flushed=lsn_of(row["flushed"]),
            inserted=lsn_of(row["inserted"]),
            confirmed=None if row["confirmed"] is None else lsn_of(row["confirmed"]),
            retained=row["retained"] or 0,
            active_pid=row["active_pid"],
            fault=_fault(row),
        )

    def refuse_lost(self, position: LogPosition | None, watcher: str) -> int:
        """Return the confirmed LSN. Raises `SourceChanged` where the slot does not hand out what follows the position."""
        fault, confirmed = self.fault, self.confirmed
        if fault is None and position is not None and confirmed is not None:
            if confirmed > position.end:
                fault = (
                    f"was advanced to {lsn_text(confirmed)}, past the position: by another client, or by this watcher"
                    " before a backup of the metadata database was restored"
                )
            elif self.inserted < position.end:
                fault = f"is on a server whose WAL ends at {lsn_text(self.inserted)}: its history went back"
        if fault is not None or confirmed is None:
            raise SourceChanged(lost_sentence(self.name, fault or "is gone", position, watcher))
        return confirmed

    def refuse_in_use(self) -> None:
        if self.active_pid is not None:
            raise SourceBusy(f"the replication slot {self.name} is in use by pid {self.active_pid}")

    def finding(self, most: int, watcher: str) -> Finding | None:
        """Return a warning once the slot makes the server keep half of `max_retained`, `most` bytes."""
        if self.retained * 2 < most:
            return None
        return Finding.warning(
            "retained",
            f"the slot {self.name} makes the server keep {self.retained:,} bytes of WAL, of at most {most:,} (`max_retained`)",
            f"find out what {watcher} waits for, or raise `max_retained`: at the bound the slot is dropped, and the"
            " watcher is blocked",
        )


def lost_sentence(name: str, fault: str, position: LogPosition | None, watcher: str) -> str:
    """Return what a person should know of a slot that is lost, and do."""
    since = "" if position is None else f"; changes after LSN {position.up_to} may be missing"
    return (
        f"the replication slot {name} {fault}{since}. `watcher rewind {watcher} --to now` makes it again and continues with"
        " what is committed from then on; read the table, or use another mode beside it, for what was changed in between"
    )


def _fault(row: Mapping[str, Any]) -> str | None:
    if not row["is_there"]:
        return "is gone"
    if row["plugin"] != PLUGIN:
        return f"has the plugin {row['plugin'] or 'of no logical slot'}, not {PLUGIN}"
    if row["database"] != row["here"]:
        return f"belongs to the database {row['database']}, not to {row['here']}"
    if row["wal_status"] == "lost" or row["reason"] is not None:
        return f"is invalid ({row['reason'] or 'the server removed WAL that it needs'})"
    return None


async def create(session: Session, name: str, server_version: int, patience: float) -> int:
    """Make the slot within `patience` seconds and return the LSN at which it begins. Raises `SourceBusy` while open transactions keep it from beginning."""
    statement = CREATE_WITH_FAILOVER if server_version >= FAILOVER_SINCE else CREATE
    limits = StatementLimits(statement=timedelta(seconds=patience), lock=timedelta(seconds=patience))
    try:
        [row] = (await session.fetch(statement, name, limits=limits)).rows
    except SourceUnavailable as error:
        if sqlstate_of(error) not in {LOCK_TIMEOUT, STATEMENT_TIMEOUT}:
            raise
        rows = (await session.fetch(OPEN_TRANSACTIONS)).rows
        holders = ", ".join(f"pid {row['pid']}" if row["pid"] else f"prepared as {row['gid']!r}" for row in rows)
        raise SourceBusy(
            f"the replication slot {name} begins when the transactions that were open have ended: {holders or 'unknown'}"
        ) from error
    return lsn_of(row["lsn"])


async def drop(session: Session, name: str) -> None:
    """Drop the slot, if it is there."""
    try:
        await session.fetch(DROP, name)
    except SourceUnavailable as error:
        if sqlstate_of(error) != IN_USE:
            raise
        raise SourceBusy(f"the replication slot {name} is in use; it is dropped when that ends") from error
