"""The contents of a Delta table's log entries. Pure."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from asset_job.tables.parquet.bounds import Bounds
from asset_job.tables.parquet.data_files import DataFile

_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - the zone is written only where the type has one
_STRUCT = '{"type": "struct"'
_NESTING = {"nullable", "containsNull", "valueContainsNull", "metadata"}


def type_text(kind: Any) -> str:
    """A text for a type in a Delta schema's JSON. Types that differ only in what may be null have the same text."""
    return kind if isinstance(kind, str) else json.dumps(_bare(kind))


def _bare(kind: Any) -> Any:
    if isinstance(kind, dict):
        return {name: _bare(value) for name, value in kind.items() if name not in _NESTING}
    return [_bare(each) for each in kind] if isinstance(kind, list) else kind


def partition_values(columns: Sequence[str], values: Sequence[str | None]) -> dict[str, str | None]:
    """The values of a file's partition by column. An empty text is null, as Delta's protocol defines it."""
    return {name: value or None for name, value in zip(columns, values, strict=True)}


def statistics(file: DataFile, types: Mapping[str, str]) -> str:
    """The `stats` of a file as JSON. `types` has the columns that files of the table hold: name -> the text of its type.

    Each column has both bounds. If a column cannot have them, all columns go without: deltalake takes a bound that it misses for
    null, and skips the file. It misses the bounds of structs.
    """
    bounds = {name: file.bounds.get(name) or Bounds(nulls=file.rows, values=0) for name in types}
    flat = {name: each for name, each in bounds.items() if not types[name].startswith("{")}
    measured = {name: each for name, each in flat.items() if types[name] != "binary"}
    smallest = {name: _text(each.smallest, types[name]) for name, each in measured.items() if each.values}
    largest = {name: _text(each.largest, types[name]) for name, each in measured.items() if each.values}
    rows = f'"numRecords": {file.rows}'
    null_structs = any(bounds[name].nulls for name in types if types[name].startswith(_STRUCT))
    if null_structs or None in [*smallest.values(), *largest.values()]:
        return f"{{{rows}}}"
    nulls = json.dumps({name: each.nulls for name, each in flat.items()})
    return f'{{{rows}, "minValues": {_object(smallest)}, "maxValues": {_object(largest)}, "nullCount": {nulls}}}'


def _object(members: Mapping[str, str | None]) -> str:
    return f"{{{', '.join(f'{json.dumps(name)}: {text}' for name, text in members.items())}}}"


def _text(value: Any, kind: str) -> str | None:
    """A bound as the text of a JSON value; None if there is none, or Delta cannot represent it."""
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return None
    try:
        match kind:
            case "date":
                return json.dumps((_EPOCH.date() + timedelta(days=value)).isoformat())
            case "timestamp" | "timestamp_ntz":
                moment = (_EPOCH + timedelta(microseconds=value)).isoformat(timespec="microseconds")
                return json.dumps(moment + "Z" * (kind == "timestamp"))
    except OverflowError:
        return None
    return f"{Decimal(value):f}" if kind.startswith("decimal") else json.dumps(value)
