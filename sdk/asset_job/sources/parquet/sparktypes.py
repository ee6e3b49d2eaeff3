"""The types of Parquet files as Spark has them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import pyarrow as pa

from asset_job.sources.request import quoted

INT96: Final = pa.timestamp("ns", "INT96")
"""The type that stands for a moment which the file stores as INT96."""
UUID: Final = pa.uuid()
INTERVAL: Final = pa.month_day_nano_interval()
LOCAL: Final = pa.timestamp("us")
MOMENT: Final = pa.timestamp("us", "UTC")
_OTHERS: Final = {
    pa.uint8(): pa.int16(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.uint64(): pa.decimal128(20, 0),
    pa.float16(): pa.float32(),
    pa.string_view(): pa.string(),
    pa.large_string(): pa.string(),
    UUID: pa.string(),
    INT96: MOMENT,
}
_NAMES: Final = {
    pa.null(): "string",  # no file has a value
    pa.bool_(): "boolean",
    pa.int8(): "tinyint",
    pa.int16(): "smallint",
    pa.int32(): "int",
    pa.int64(): "bigint",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.string(): "string",
    pa.binary(): "binary",
    pa.date32(): "date",
    LOCAL: "timestamp_ntz",
    MOMENT: "timestamp",
}
_INTEGERS: Final = {pa.int8(): 3, pa.int16(): 5, pa.int32(): 10, pa.int64(): 19}
"""Integers and their decimal digits, from narrow to wide."""
_NARROWER: Final = {
    **{kind: [each for each in _INTEGERS if _INTEGERS[each] <= digits] for kind, digits in _INTEGERS.items()},
    pa.float32(): [pa.int8(), pa.int16(), pa.float32()],
    pa.float64(): [pa.int8(), pa.int16(), pa.int32(), pa.float32(), pa.float64()],
}
"""The types of which a type has all values, from narrow to wide."""
_MOST_DIGITS: Final = 38


def mapped(kind: pa.DataType, leaf: Callable[[pa.DataType], pa.DataType]) -> pa.DataType:
    """A type whose innermost types are changed by `leaf`, in the order of a file's columns, and whose lists are all alike."""
    kind = kind.storage_type if isinstance(kind, pa.BaseExtensionType) and kind != UUID else kind
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(field.name, mapped(field.type, leaf)) for field in kind])
    if pa.types.is_map(kind):
        return pa.map_(mapped(kind.key_type, leaf), mapped(kind.item_type, leaf))
    return pa.list_(mapped(kind.value_type, leaf)) if pa.types.is_nested(kind) else leaf(kind)


def in_spark(kind: pa.DataType) -> pa.DataType:
    """The type of Spark that has all values of a type; a type without values stays null. Raises `TypeError`: there is none."""
    return mapped(kind, _in_spark)


def _in_spark(kind: pa.DataType) -> pa.DataType:
    types = pa.types
    if types.is_timestamp(kind) and kind != INT96:
        return MOMENT if kind.tz else LOCAL
    if types.is_decimal(kind) and kind.precision <= _MOST_DIGITS:
        return pa.decimal128(kind.precision, kind.scale)
    known = pa.binary() if "binary" in str(kind) else pa.date32() if types.is_date(kind) else _OTHERS.get(kind, kind)
    if known not in _NAMES and kind not in _OTHERS:
        raise TypeError
    return known


def spark_type(kind: pa.DataType) -> str:
    """A type in Spark's DDL, or as Arrow names it where Spark has none."""
    try:
        known = in_spark(kind)
    except TypeError:
        return str(kind)
    if pa.types.is_decimal(known):
        return f"decimal({known.precision},{known.scale})"
    if pa.types.is_struct(known):
        return f"struct<{', '.join(f'{quoted(field.name)}: {spark_type(field.type)}' for field in known)}>"
    if pa.types.is_map(known):
        return f"map<{spark_type(known.key_type)}, {spark_type(known.item_type)}>"
    return f"array<{spark_type(known.value_type)}>" if pa.types.is_list(known) else _NAMES[known]


def joined(one: pa.DataType, other: pa.DataType) -> pa.DataType:
    """The type of Spark that has all values of two of its types. Raises `TypeError` if there is none."""
    if pa.types.is_null(one):
        return other
    if one == other or pa.types.is_null(other):
        return one
    alike = one.id == other.id
    if alike and pa.types.is_struct(one):
        return _joined_members(one, other)
    if alike and pa.types.is_map(one):
        return pa.map_(joined(one.key_type, other.key_type), joined(one.item_type, other.item_type))
    if alike and pa.types.is_list(one):
        return pa.list_(joined(one.value_type, other.value_type))
    known = next((kind for kind, narrower in _NARROWER.items() if {one, other} <= {*narrower}), None)
    return known or _decimal(one, other)


def _joined_members(one: pa.DataType, other: pa.DataType) -> pa.DataType:
    fields = {field.name.lower(): field for field in one}
    for field in other:
        known = fields.get(field.name.lower(), field)
        fields[field.name.lower()] = known.with_type(joined(known.type, field.type))
    return pa.struct(list(fields.values()))


def _decimal(*kinds: pa.DataType) -> pa.DataType:
    """The decimal that has all values of decimals and integers. Raises `TypeError`."""
    decimals = [pa.decimal128(_INTEGERS[kind], 0) if kind in _INTEGERS else kind for kind in kinds]
    if not all(map(pa.types.is_decimal, decimals)):
        raise TypeError
    scale = max(kind.scale for kind in decimals)
    digits = scale + max(kind.precision - kind.scale for kind in decimals)
    if digits > _MOST_DIGITS:
        raise TypeError
    return pa.decimal128(digits, scale)
