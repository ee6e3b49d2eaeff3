"""Parse Parquet files into rows of a schema: columns are taken by name, and a row with a value that does not fit is bad."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from asset_job.sources.options import ReadOptions
from asset_job.sources.parquet.calendars import calendars_of
from asset_job.sources.parquet.content import ParquetContent, RowsRead, broken
from asset_job.sources.parquet.conversion import VALUE, Bad, Conversions, Convert
from asset_job.sources.parquet.sparktypes import INT96
from asset_job.sources.partition_folders import partition_values
from asset_job.sources.records import BadRecord, OpenFile, Parsed

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
        with broken(file.name):
            calendars = calendars_of(content.metadata, self.options)
        conversions = Conversions(file=file.name, calendars=calendars, options=self.options)
        fields = content.fields()
        names = [name for name in self.columns.names if name not in constants]
        places = conversions.places(pa.struct(fields), names, "the file")
        convert = {
            name: (fields[at].name, conversions.of(fields[at].type, self.columns.field(name).type, name))
            for name, at in places.items()
        }
        sources = [fields[at] for at in dict.fromkeys(places.values())]
        twice = [field.name for field in sources if str(INT96) in str(field.type) and not calendars.is_exact]
        for rows in content.rows([field.name for field in sources], twice):
            yield from self._parsed(rows, convert, constants)

    def _parsed(
        self, rows: RowsRead, convert: Mapping[str, tuple[str, Convert]], constants: Mapping[str, str | None]
    ) -> Iterator[Parsed]:
        columns, bad, count = [], dict[int, tuple[str, str]](), rows.batch.num_rows
        for field in self.columns:
            source, own = "", Bad()
            if field.name in constants:
                column = pa.array([constants[field.name]], pa.string()).take(pa.repeat(0, count)).cast(field.type)
            elif field.name in convert:
                source, change = convert[field.name]
                column = change(rows.readings(source), own)
            else:
                column = pa.nulls(count, field.type)
            if not field.nullable and column.null_count:
                missing = pc.indices_nonzero(column.is_null()).to_pylist()
                own = dict.fromkeys(missing, f"the column {field.name} is NOT NULL, and its value is {VALUE}") | own
            bad |= {at: (why, source) for at, why in own.items()}
            columns.append(column)
        batch = pa.record_batch(columns, schema=self.columns)
        good = batch.filter(pa.array([at not in bad for at in range(count)])) if bad else batch
        if good.num_rows:
            yield good
        for at in sorted(bad):
            yield _bad_record(rows, at, *bad[at])


def _bad_record(rows: RowsRead, at: int, reason: str, column: str) -> BadRecord:
    """The bad record of a row, as JSON of what was read."""
    row = {name: _shown([each.slice(at, 1) for each in rows.readings(name)]) for name in rows.batch.schema.names}
    value = json.dumps(row.get(column), ensure_ascii=False)
    shown = value if len(value) <= _LONGEST_VALUE else f"{value[:_LONGEST_VALUE]}…"
    record = json.dumps(row, ensure_ascii=False)
    return BadRecord(record=record, at=f"row {rows.before + at + 1}", reason=reason.replace(VALUE, shown))


def _shown(readings: Sequence[pa.Array]) -> Any:
    """The only value of an array, for JSON. A moment that was read twice is shown with its nanoseconds."""
    first, *more = readings
    try:
        shown = json.loads(json.dumps(first[0].as_py(), default=_text, allow_nan=False))
    except (ValueError, OverflowError):  # it is beyond Python's types, or no number
        shown = first.to_string(skip_new_lines=True)[1:-1].strip()
    if more and shown and pa.types.is_timestamp(first.type):
        return f"{shown}.{(more[0][0].value - first[0].value * 1_000_000_000) % (1 << 64):09}"
    return shown


def _text(value: Any) -> str:
    return value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else str(value)
