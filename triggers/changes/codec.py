"""Keys and rows of changes, as JSON that equals what the other modes report of the same rows.

The server converts them: the texts that it sent become values of their types again, and then JSON, by the expressions that
the other modes apply to the rows of the table.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from triggers.base import JsonValue
from triggers.changes.log_position import LoggedChange
from triggers.changes.messages import PublishedRelation, RelationColumn, Unsent, Value, Values
from triggers.changes.options import ChangesOptions
from triggers.changes.statements import TYPES_OF_VALUES
from triggers.errors import SourceChanged
from triggers.postgres.row_limits import refuse_unreadable
from triggers.postgres.sql import parts_as_texts
from triggers.postgres.table.examined_table import ExaminedTable
from triggers.shared.postgres.sql import primary_key_as_json, quoted, row_as_json
from triggers.shared.postgres.values import ValueType, parse_all, parse_rows, type_of

Columns: TypeAlias = "tuple[RelationColumn, ...]"


@dataclass(frozen=True, kw_only=True, slots=True)
class DecodedChange:
    """The members of one change that hold values; `row` is None without `columns`, and for a DELETE."""

    key: JsonValue = None
    old_key: JsonValue = None
    row: Mapping[str, JsonValue] | None = None
    unchanged: Sequence[str] = ()
    """The configured columns that were not sent."""
    parts: Sequence[str | None] = ()
    """The values of the row's dividing columns: for a DELETE those that the row before has."""
    old_parts: Sequence[str | None] | None = None
    """The values before, if the server sent a row before that differs in one of them."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Conversion:
    """How rows with certain columns become JSON."""

    columns: Sequence[int]
    """The indexes of the columns that are needed."""
    statement: str
    types: Mapping[str, ValueType]
    identity: Sequence[int]
    """The indexes of the dividing columns that a row before has."""


class RowCodec:
    """Converts the changes of one watched table. A relation may have changed between two of them."""

    def __init__(self, table: ExaminedTable[ChangesOptions]) -> None:
        self.table = table
        self._conversions: dict[Columns, _Conversion] = {}

    async def decode(self, changes: Sequence[LoggedChange]) -> list[DecodedChange]:
        """Return the values of each change. Raises `UnreadableRows` for a value that cannot be JSON, and `SourceChanged`."""
        decoded = [DecodedChange()] * len(changes)
        by_columns: dict[Columns, list[int]] = {}
        for index, change in enumerate(changes):
            if change.relation is not None:
                by_columns.setdefault(tuple(change.relation.columns), []).append(index)
        for indexes in by_columns.values():
            some = [changes[index] for index in indexes]
            for index, values in zip(indexes, await self._decode_alike(some), strict=True):
                decoded[index] = values
        return decoded

    async def _decode_alike(self, changes: Sequence[LoggedChange]) -> list[DecodedChange]:
        """Decode changes of relations with the same columns, by one statement. A change takes one or two of its rows."""
        relation = changes[0].relation
        assert relation is not None  # noqa: S101  the caller's
        conversion = await self._conversion(relation)
        values = [row for change in changes for row in _rows_of(change)]
        texts = [[_text(row[index]) for row in values] for index in conversion.columns]
        rows = iter(await self.table.fetch(conversion.statement, *texts))
        decoded = []
        for change in changes:
            old = next(rows) if change.old is not None and change.new is not None else None
            decoded.append(self._decoded(change, relation, conversion, next(rows), old))
        return decoded

    def _decoded(
        self, change: LoggedChange, relation: PublishedRelation, conversion: _Conversion, row: Any, old: Any
    ) -> DecodedChange:
        refuse_unreadable([row["key"], row["row"]])
        key, old_key = parse_all([row["key"], row["key"] if old is None else old["key"]])
        known = DecodedChange(
            key=key,
            old_key=None if old_key == key else old_key,
            parts=row["parts"] or (),
            old_parts=old["parts"] if _has_moved(change, conversion.identity) else None,
        )
        if change.new is None or row["row"] is None:
            return known
        names = {relation.columns[index].name for index in conversion.columns if change.new[index] is Unsent.TOAST}
        if change.old is not None and relation.replica_identity == "f":
            names = set()  # the row before was sent as a whole
        [parsed] = parse_rows([row["row"]], conversion.types)
        return replace(
            known,
            row={name: value for name, value in parsed.items() if name not in names},
            unchanged=[name for name in parsed if name in names],
        )

    async def _conversion(self, relation: PublishedRelation) -> _Conversion:
        columns = tuple(relation.columns)
        if columns not in self._conversions:
            self._conversions[columns] = await self._made(columns)
        return self._conversions[columns]

    async def _made(self, columns: Columns) -> _Conversion:
        facts, options = self.table.facts, self.table.options
        sent = {column.name: index for index, column in enumerate(columns)}
        if missing := [name for name in facts.primary_key if name not in sent]:
            raise SourceChanged(
                f"changes of {options.table} that were made before its primary key changed have no {', '.join(missing)}:"
                f" `watcher rewind {self.table.watcher} --to now`, and read the table for what was changed before"
            )
        configured = [name for name in options.columns if name in sent]
        of_parts = [name for name in options.dividing_columns if name in sent]
        needed = sorted({sent[name] for name in (*facts.primary_key, *configured, *of_parts)})
        rows = await self.table.fetch(TYPES_OF_VALUES, [columns[index].type for index in needed])
        catalogue = {row["oid"]: row for row in rows}
        types = {columns[index].name: type_of(columns[index].type, catalogue) for index in needed}
        casts = [f"{_base_name(columns[index].type, catalogue)} AS {quoted(columns[index].name)}" for index in needed]
        key, row = primary_key_as_json(facts.primary_key, types), row_as_json(configured, types)
        return _Conversion(
            columns=needed,
            statement=_statement(key, row, _parts(options.dividing_columns, sent), casts),
            types=types,
            identity=[sent[name] for name in of_parts if columns[sent[name]].in_identity],
        )


def _parts(columns: Sequence[str], sent: Container[str]) -> str:
    """Return an expression for the values that divide rows. A column that is newer than the row is not among those `sent`."""
    return parts_as_texts("r", [name if name in sent else None for name in columns])


def _has_moved(change: LoggedChange, identity: Sequence[int]) -> bool:
    """Whether an UPDATE changed a dividing column that the row before has."""
    old, new = change.old, change.new
    return old is not None and new is not None and any(new[at] not in (old[at], Unsent.TOAST) for at in identity)


def _statement(key: str, row: str, parts: str, casts: Sequence[str]) -> str:
    """Return a statement that takes an array of texts for each column, and returns key, row and parts of each of their rows."""
    numbers = range(1, len(casts) + 1)
    arrays, given = ", ".join(f"${n}::text[]" for n in numbers), ", ".join(f"c{n}" for n in numbers)
    typed = ", ".join(f"v.c{n}::{cast}" for n, cast in zip(numbers, casts, strict=True))
    return (
        f"SELECT x.key, x.row, x.parts FROM unnest({arrays}) WITH ORDINALITY AS v({given}, place) CROSS JOIN LATERAL"  # noqa: S608
        f" (SELECT {key} AS key, {row} AS row, {parts} AS parts FROM (SELECT {typed}) r) x ORDER BY v.place"
    )


def _rows_of(change: LoggedChange) -> list[Values]:
    """Return the row before, if its key may be another, and the row itself, whose unsent values the row before may know."""
    old, new = change.old, change.new
    if new is None:
        return [old or ()]
    if old is None:
        return [new]
    return [old, [before if after is Unsent.TOAST else after for before, after in zip(old, new, strict=True)]]


def _text(value: Value) -> str | None:
    return None if value is Unsent.TOAST else value


def _base_name(oid: int, catalogue: Mapping[int, Mapping[str, Any]]) -> str:
    """Return the name of a type as SQL, of a domain that of its base: a constraint may be newer than the value."""
    row = catalogue[oid]
    return _base_name(row["base"], catalogue) if row["base"] else str(row["name"])
