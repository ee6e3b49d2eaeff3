"""The sizes of rows, by which batches are cut (pure)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from triggers.shared.postgres.sql import quoted

FIXED: Final = {"smallint", "integer", "bigint", "boolean", "real", "double precision", "uuid", "date", "interval"} | {
    f"{kind} {zone} time zone" for kind in ("timestamp", "time") for zone in ("with", "without")
}
"""Types whose values are small: rows that hold nothing else need no statement for their sizes."""
_RAW: Final = {"text", "character varying", "character", "bytea"}
"""Types whose size before compression is known without opening the value."""


def size_of(columns: Sequence[str], types: Mapping[str, str]) -> str | None:
    """Return an expression for the bytes in a row's columns; None where they are few in any case."""
    terms = [
        f"coalesce({'octet_length' if types[name] in _RAW else 'pg_column_size'}({quoted(name)}), 4)"
        for name in columns
        if types[name] not in FIXED
    ]
    return " + ".join(terms) or None


def length_of(text: str | None) -> int:
    """Return the length of a JSON text as it is stored, in ASCII."""
    if text is None or text.isascii():
        return len(text or "")
    return len(text.encode("ascii", "backslashreplace"))
