"""The rows that a merge writes, in the types of its table."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import pyarrow as pa

from asset_job.errors import NoRetry
from asset_job.sources.json.columns import JsonColumns
from asset_job.sources.json.inference import JsonShape
from asset_job.sources.json.strict import decoded
from asset_job.sources.json.values import Value
from asset_job.sources.options import ReadOptions
from asset_job.sources.records import BadRecord
from asset_job.tables.merge.changes import Key, NetChange, NetChanges, key_text

_MANY = 10_000
"""How many values are converted at a time."""


class MergeRows(Protocol):
    """The changes of a run and their rows."""

    @property
    def changes(self) -> NetChanges: ...

    @property
    def merge_on(self) -> Sequence[str]:
        """The columns of the key."""

    @property
    def names(self) -> Sequence[str]:
        """The columns that the rows have."""

    def types_of(self, names: Sequence[str]) -> pa.Schema:
        """The types for columns that the table lacks. Raises `AssetJobError`."""

    def typed(self, changes: Sequence[NetChange], schema: pa.Schema) -> pa.Table:
        """The rows that these changes write, in all columns of a table. What a row lacks is null. Raises `NoRetry`."""


@dataclass(frozen=True, kw_only=True)
class ChangedRows:
    """The rows in the changes of events, whose values are JSON."""

    changes: NetChanges
    merge_on: Sequence[str]
    schema: pa.Schema | None
    """The columns to take; None: those that the rows have."""
    types_by_ddl: Callable[[str], pa.Schema]
    """Returns the types that a text in Spark's DDL names."""

    @cached_property
    def names(self) -> Sequence[str]:
        if self.schema is not None:
            return list(self.schema.names)
        return list(dict.fromkeys(name for row in self._rows for name in row))

    def types_of(self, names: Sequence[str]) -> pa.Schema:
        """The types that the schema says, or that all values show."""
        if self.schema is not None:
            return pa.schema([self.schema.field(name) for name in names])
        shape = JsonShape()
        for row in self._rows:
            shape.add(decoded(json.dumps({name: row[name] for name in names if name in row}))[0])
        shape.count()
        types = self.types_by_ddl(", ".join(shape.fields(" ")))
        return pa.schema([types.field(name) for name in names])

    def typed(self, changes: Sequence[NetChange], schema: pa.Schema) -> pa.Table:
        return typed_values(((change.key, change.row or {}) for change in changes), schema)

    @property
    def _rows(self) -> Iterator[Mapping[str, Any]]:
        return (change.row for change in self.changes.of_keys.values() if change.row is not None)


@dataclass(frozen=True, kw_only=True)
class SourceRows:
    """The rows that were read from the source, as they are now."""

    changes: NetChanges
    merge_on: Sequence[str]
    rows: pa.Table
    places: Mapping[str, int]
    """The text of a key -> the place of its row."""

    @property
    def names(self) -> Sequence[str]:
        return list(self.rows.column_names)

    def types_of(self, names: Sequence[str]) -> pa.Schema:
        return pa.schema([self.rows.schema.field(name) for name in names])

    def typed(self, changes: Sequence[NetChange], schema: pa.Schema) -> pa.Table:
        chosen = self.rows.take(pa.array([self.places[key_text(change.key)] for change in changes], pa.int64()))
        own = {name.lower(): chosen.column(name) for name in chosen.column_names}
        try:
            columns = [
                own[field.name.lower()].cast(field.type)
                if field.name.lower() in own
                else pa.nulls(len(changes), field.type)
                for field in schema
            ]
        except pa.ArrowInvalid as error:
            raise NoRetry(f"a value of the source does not have its column's type in the table: {error}") from None
        return pa.table(columns, schema=nullable(schema))


def typed_values(rows: Iterable[tuple[Key, Mapping[str, Any]]], schema: pa.Schema) -> pa.Table:
    """JSON rows in the types of a schema. Raises `NoRetry` for a value that does not have its column's type, naming the key."""
    kinds = JsonColumns(nullable(schema), ReadOptions())
    binary = {field.name.lower() for field in schema if pa.types.is_binary(field.type)}
    batches: list[pa.RecordBatch] = []
    given = list(rows)
    for start in range(0, len(given), _MANY):
        some = given[start : start + _MANY]
        for parsed in kinds.parsed(_value(row, number, binary) for number, (_, row) in enumerate(some)):
            if isinstance(parsed, BadRecord):
                key = key_text(some[int(parsed.at.removeprefix("line "))][0])
                raise NoRetry(
                    f"the row with the key {key} does not fit the table: {parsed.reason}; correct the row or the schema"
                )
            batches.append(parsed)
    return pa.Table.from_batches(batches, schema=nullable(schema))


def nullable(schema: pa.Schema) -> pa.Schema:
    """The schema in which all columns may be null."""
    return pa.schema([field.with_nullable(True) for field in schema])


def _value(row: Mapping[str, Any], number: int, binary: Container[str]) -> Value:
    """A row as a value of a JSON file has it. PostgreSQL writes bytes in hexadecimal, where a file has base64."""
    content = {name: _in_base64(value) if name.lower() in binary else value for name, value in row.items()}
    text = json.dumps(content, ensure_ascii=False)
    return Value(text, decoded(text)[0], number)


def _in_base64(value: Any) -> Any:
    is_hex = isinstance(value, str) and value.startswith("\\x")
    return base64.b64encode(bytes.fromhex(value[2:])).decode() if is_hex else value
