"""The statements that read kept rows again, and the newest rows that there are, as text (pure)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from triggers.postgres.history.kept_rows import BASELINE, Witness
from triggers.postgres.sql import SNAPSHOT
from triggers.shared.postgres.sql import TableName, quoted

PREPARED: Final = """
SELECT transaction::text::int8 AS xid, gid AS name FROM pg_prepared_xacts WHERE database = current_database() ORDER BY prepared
"""
"""The prepared transactions of the database, the oldest first."""


@dataclass(frozen=True, kw_only=True)
class KeptRowsById:
    """The statements of mode `id`. Both return ids and the fingerprints of their rows."""

    present: str
    """The rows with the ids `$1`."""
    newest: str
    """The newest rows up to the id `$1`, in descending order."""

    @classmethod
    def of(cls, table: TableName, column: str, witness: Witness) -> KeptRowsById:
        cursor = f"{table.sql}.{quoted(column)}"
        row = f"{cursor}::int8 AS key, {witness.fingerprint(f'{table.sql}.xmin')} AS fingerprint, {SNAPSHOT}"
        select = f"SELECT {row} FROM {table.sql}"  # noqa: S608  names are quoted
        return cls(
            present=f"{select} WHERE {cursor} = ANY ($1::int8[])",
            newest=f"{select} WHERE {cursor} <= $1::int8 ORDER BY {cursor} DESC LIMIT {BASELINE}",
        )


def last_id(last: str | None) -> str:
    """Return a statement for the id that the sequence handed out last; null where that cannot be read."""
    return f"SELECT ({last}) AS last" if last else "SELECT NULL::int8 AS last"
