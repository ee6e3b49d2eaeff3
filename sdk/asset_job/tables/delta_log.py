"""What is written into a Delta table's log. Pure but for what Parquet says of its files."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa

from .data_files import DataFile

_LONGEST_TEXT = 64
_EXACT_DIGITS = 15
_NESTING = {"nullable", "containsNull", "valueContainsNull", "metadata"}


def type_text(kind: Any) -> str:
    """Of a type as Delta's schema has it in JSON; what may be null is no matter."""
    return kind if isinstance(kind, str) else json.dumps(_bare(kind))


def _bare(kind: Any) -> Any:
    if isinstance(kind, dict):
        return {name: _bare(value) for name, value in kind.items() if name not in _NESTING}
    return [_bare(each) for each in kind] if isinstance(kind, list) else kind


def partition_values(columns: Sequence[str], values: Sequence[str | None]) -> dict[str, str | None]:
    """An empty text is null: the protocol has it so."""
    return {name: value or None for name, value in zip(columns, values, strict=True)}


def statistics(file: DataFile) -> str:
    """Of the file's columns that are no structures, as far as their smallest and largest values hold for all rows."""
    smallest: dict[str, Any] = {}
    largest: dict[str, Any] = {}
    nulls: dict[str, int] = {}
    for name, groups in _columns(file.metadata).items():
        if any(group is None or not group.has_null_count for group in groups):
            continue
        nulls[name] = sum(group.null_count for group in groups)
        values = [group for group in groups if group.has_min_max]
        all_known = sum(group.num_values for group in values) == file.rows - nulls[name]
        if values and all_known and name not in file.with_nan:
            with suppress(OverflowError, ValueError):  # Python's years end with 9999, Parquet's do not
                ends = min(group.min for group in values), max(group.max for group in values)
                _add(smallest, name, ends[0])
                _add(largest, name, ends[1])
    return json.dumps({"numRecords": file.rows, "minValues": smallest, "maxValues": largest, "nullCount": nulls})


def _columns(metadata: Any) -> Mapping[str, list[Any]]:
    """Each plain column's statistics, of all row groups."""
    plain = {field.name for field in metadata.schema.to_arrow_schema() if not pa.types.is_nested(field.type)}
    found: dict[str, list[Any]] = {}
    for column in _chunks(metadata):
        if column.path_in_schema in plain:
            found.setdefault(column.path_in_schema, []).append(column.statistics)
    return found


def _chunks(metadata: Any) -> Iterator[Any]:
    for group in range(metadata.num_row_groups):
        row_group = metadata.row_group(group)
        yield from (row_group.column(at) for at in range(row_group.num_columns))


def _add(values: dict[str, Any], name: str, value: Any) -> None:
    """What JSON cannot say exactly is left out."""
    match value:
        case bool() | bytes():
            return
        case float() if not math.isfinite(value):
            return
        case str() if len(value) > _LONGEST_TEXT:
            return
        case Decimal() if len(value.as_tuple().digits) > _EXACT_DIGITS:
            return
        case Decimal():
            values[name] = float(value)
        case datetime():
            values[name] = value.isoformat(timespec="microseconds").replace("+00:00", "Z")
        case date():
            values[name] = value.isoformat()
        case int() | float() | str():
            values[name] = value
