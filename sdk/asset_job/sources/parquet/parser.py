"""Parse Parquet files into rows of a schema: columns are taken by name, and a row with a value that does not fit is bad."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from asset_job.sources.options import ReadOptions
from asset_job.sources.parquet.calendars import calendars_of
from asset_job.sources.parquet.content import ParquetContent, RowsRead
from asset_job.sources.parquet.conversion import VALUE, Conversions, Convert, Misfit, plain
from asset_job.sources.parquet.sparktypes import INT96
from asset_job.sources.records import BadRecord, OpenFile, Parsed
from asset_job.tables.layout import partition_values

_LONGEST_VALUE: Final = 100
"""The characters of a value in a reason."""


@dataclass(frozen=True, kw_only=True)
class ParquetParser:
    """Parses Parquet files. Columns that a file lacks are null. Implements `RecordParser`."""

    columns: pa.Schema
    options: ReadOptions
    from_path: Sequence[str] = ()
    """The columns whose values are in the file's path, as in a table's partitions, and not in the file."""

    def parse(self, file: OpenFile) -> Iterator[Parsed]:
        """The rows of the file's part, in batches, and its bad rows. Raises `FileInvalid`."""
        content = ParquetContent.of(file)
        constants = {name: value for name, value in partition_values(file.name).items() if name in self.from_path}
        calendars = calendars_of(content.metadata, self.options)
        conversions = Conversions(
            file=file.name, calendars=calendars, truncate=self.options.truncate, time_zone=self.options.time_zone
        )
        fields = content.fields()
        names = [name for name in self.columns.names if name not in constants]
        places = conversions.places(pa.struct(fields), names, "the file")
        convert = {
            name: (fields[at].name, conversions.of(fields[at].type, self.columns.field(name).type, name))
            for name, at in places.items()
        }
        sources = [fields[at] for at in dict.fromkeys(places.values())]
        twice = [field.name for field in sources if str(INT96) in str(field.type) and not calendars.by_spark]
        for rows in content.rows([field.name for field in sources], twice):
            yield from self._parsed(rows, convert, constants)

    def _parsed(
        self, rows: RowsRead, convert: Mapping[str, tuple[str, Convert]], constants: Mapping[str, str | None]
    ) -> Iterator[Parsed]:
        columns, misfits = [], list[tuple[Misfit, str]]()
        for field in self.columns:
            source, own = "", list[Misfit]()
            if field.name in constants:
                column = _repeated(constants[field.name], rows.batch.num_rows).cast(field.type)
            elif field.name in convert:
                source, change = convert[field.name]
                column = change(rows.readings(source), own)
            else:
                column = pa.nulls(rows.batch.num_rows, field.type)
            if not field.nullable and column.null_count:
                own.append((column.is_null(), f"the column {field.name} is NOT NULL, and its value is {VALUE}"))
            misfits += [(misfit, source) for misfit in own]
            columns.append(column)
        batch = pa.record_batch(columns, schema=self.columns)
        if not misfits:
            yield batch
            return
        bad = reduce(pc.or_, [mask for (mask, _), _ in misfits])
        if (good := batch.filter(pc.invert(bad))).num_rows:
            yield good
        for at in pc.indices_nonzero(bad).to_pylist():
            yield _bad_record(rows, at, *next((why, name) for (mask, why), name in misfits if mask[at].as_py()))


def _repeated(value: str | None, count: int) -> pa.Array:
    return pa.array([value], pa.string()).take(pa.repeat(0, count))


def _bad_record(rows: RowsRead, at: int, reason: str, column: str) -> BadRecord:
    """The bad record of a row, as JSON of what was read."""
    row = {name: _shown([plain(each.slice(at, 1)) for each in rows.readings(name)]) for name in rows.batch.schema.names}
    value = json.dumps(row.get(column), ensure_ascii=False)
    shown = value if len(value) <= _LONGEST_VALUE else f"{value[:_LONGEST_VALUE]}…"
    record = json.dumps(row, ensure_ascii=False)
    return BadRecord(record=record, at=f"row {rows.before + at + 1}", reason=reason.replace(VALUE, shown))


def _shown(one: Sequence[pa.Array]) -> Any:
    """The only value of an array, for JSON. A moment that was read twice is shown with its nanoseconds."""
    first, kind, types = one[0], one[0].type, pa.types
    if first.null_count or types.is_null(kind):
        return None
    if types.is_struct(kind):
        members = [each.flatten() for each in one]
        return {field.name: _shown([plain(each[at]) for each in members]) for at, field in enumerate(kind)}
    if types.is_list(kind):
        values = [each.flatten() for each in one]
        return [_shown([plain(each.slice(at, 1)) for each in values]) for at in range(len(values[0]))]
    scalar = first[0]
    if types.is_boolean(kind) or types.is_integer(kind):
        return scalar.as_py()
    if types.is_floating(kind):
        return scalar.as_py() if pc.is_finite(scalar).as_py() else str(scalar.as_py())
    if "binary" in str(kind) or "string" in str(kind):
        return scalar.as_buffer().to_pybytes().decode("utf-8", "backslashreplace")
    text = scalar.cast(pa.string()).as_py()
    parts = [(each[0].value - scalar.value * 1_000_000_000) % (1 << 64) for each in one[1:]]
    return ".".join([text, *(f"{each:09}" for each in parts)])
