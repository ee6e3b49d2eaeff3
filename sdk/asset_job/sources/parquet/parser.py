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
from asset_job.sources.parquet.content import INT96, ParquetContent, RowsRead
from asset_job.sources.parquet.conversion import VALUE, Conversions, Convert, Misfit
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
            file=file.name,
            calendars=calendars,
            truncate=self.options.truncate,
            time_zone=self.options.time_zone,
        )
        fields = content.fields()
        names = [name for name in self.columns.names if name not in constants]
        places = conversions.names([field.name for field in fields], names, "the file")
        convert = {
            name: (fields[at].name, conversions.of(fields[at].type, self.columns.field(name).type, name))
            for name, at in places.items()
        }
        sources = [fields[at] for at in dict.fromkeys(places.values())]
        twice = [field.name for field in sources if not calendars.by_spark and _has_int96(field.type)]
        for rows in content.rows([field.name for field in sources], twice):
            yield from self._rows(rows, convert, constants)

    def _rows(
        self, rows: RowsRead, convert: Mapping[str, tuple[str, Convert]], constants: Mapping[str, str | None]
    ) -> Iterator[Parsed]:
        count, columns, misfits = rows.batch.num_rows, [], list[tuple[Misfit, str]]()
        for field in self.columns:
            if field.name in constants:
                column = pa.array([constants[field.name]], pa.string()).take(pa.repeat(0, count)).cast(field.type)
            elif field.name in convert:
                (name, change), own = convert[field.name], list[Misfit]()
                column = change(rows.readings(name), own)
                misfits += [(misfit, name) for misfit in own]
            else:
                column = pa.nulls(count, field.type)
            if not field.nullable and column.null_count:
                missing = (column.is_null(), f"the column {field.name} is NOT NULL, and its value is {VALUE}")
                misfits.append((missing, convert[field.name][0] if field.name in convert else ""))
            columns.append(column)
        batch = pa.record_batch(columns, schema=self.columns)
        if not misfits:
            yield batch
            return
        bad = reduce(pc.or_, [mask for (mask, _), _ in misfits])
        if (good := batch.filter(pc.invert(bad))).num_rows:
            yield good
        for at in pc.indices_nonzero(bad).to_pylist():
            yield _bad_record(rows, at, next((reason, name) for (mask, reason), name in misfits if mask[at].as_py()))


def _has_int96(kind: pa.DataType) -> bool:
    if pa.types.is_map(kind):
        return _has_int96(kind.key_type) or _has_int96(kind.item_type)
    return kind == INT96 or (pa.types.is_nested(kind) and any(_has_int96(each.type) for each in _members(kind)))


def _members(kind: pa.DataType) -> list[pa.Field]:
    return [kind.field(at) for at in range(kind.num_fields)]


def _bad_record(rows: RowsRead, at: int, why: tuple[str, str]) -> BadRecord:
    """The bad record of a row, as JSON of what was read."""
    reason, column = why
    row = {name: _shown([each[at] for each in rows.readings(name)]) for name in rows.batch.schema.names}
    value = json.dumps(row.get(column), ensure_ascii=False)
    shown = value if len(value) <= _LONGEST_VALUE else f"{value[:_LONGEST_VALUE]}…"
    return BadRecord(
        record=json.dumps(row, ensure_ascii=False),
        at=f"row {rows.before + at + 1}",
        reason=reason.replace(VALUE, shown),
    )


def _shown(scalars: Sequence[pa.Scalar]) -> Any:
    """A value for JSON: texts where JSON has no such type. A moment that was read twice is shown with its nanoseconds."""
    first = scalars[0]
    types, kind = pa.types, first.type
    if not first.is_valid:
        return None
    if isinstance(first, (pa.ExtensionScalar, pa.DictionaryScalar)):
        return _shown([first.value])
    if types.is_struct(kind):
        return {field.name: _shown([each[at] for each in scalars]) for at, field in enumerate(kind)}
    if types.is_map(kind) or types.is_nested(kind):
        return [_shown(each) for each in zip(*(scalar.values for scalar in scalars), strict=True)]
    if types.is_boolean(kind) or types.is_integer(kind):
        return first.as_py()
    if "binary" in str(kind) or "string" in str(kind):
        return first.as_buffer().to_pybytes().decode("utf-8", "backslashreplace")
    text = str(first.as_py()) if types.is_floating(kind) or types.is_decimal(kind) else first.cast(pa.string()).as_py()
    if len(scalars) == 1:
        return first.as_py() if types.is_floating(kind) and text not in {"nan", "inf", "-inf"} else text
    parts = (scalars[1].value - first.value * 1_000_000_000) % (1 << 64)
    return f"{text}.{parts:09}"
