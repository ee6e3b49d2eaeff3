"""Spark's types for those of Parquet files: what a type is read as without a schema, and what holds the values of two types."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from asset_job.sources.parquet.content import INT96, UUID
from asset_job.sources.request import quoted

_UNSIGNED: Final = {
    pa.uint8(): pa.int16(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.uint64(): pa.decimal128(20, 0),
    pa.float16(): pa.float32(),
    INT96: pa.timestamp("us", "UTC"),
    UUID: pa.string(),
}
_NAMES: Final = {
    pa.null(): "void",
    pa.bool_(): "boolean",
    pa.int8(): "tinyint",
    pa.int16(): "smallint",
    pa.int32(): "int",
    pa.int64(): "bigint",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.string(): "string",
    pa.large_string(): "string",
    pa.binary(): "binary",
    pa.large_binary(): "binary",
    pa.date32(): "date",
    pa.timestamp("us"): "timestamp_ntz",
    pa.timestamp("us", "UTC"): "timestamp",
}
_DIGITS: Final = {pa.int8(): 3, pa.int16(): 5, pa.int32(): 10, pa.int64(): 19}
"""The decimal digits of integers, from narrow to wide."""
_MOST_DIGITS: Final = 38


def in_spark(kind: pa.DataType) -> pa.DataType | None:
    """The Arrow type of Spark that has every value of a type; None: Spark has none. `null` stays."""
    types = pa.types
    if kind in _UNSIGNED or types.is_timestamp(kind):
        return _UNSIGNED.get(kind) or pa.timestamp("us", "UTC" if kind.tz else None)
    if types.is_decimal(kind):
        return pa.decimal128(kind.precision, kind.scale) if kind.precision <= _MOST_DIGITS else None
    if types.is_date(kind):
        return pa.date32()
    if "binary" in str(kind):
        return pa.binary()
    if types.is_nested(kind):
        inner = (
            [in_spark(kind.field(at).type) for at in range(kind.num_fields)]
            if not types.is_map(kind)
            else [in_spark(kind.key_type), in_spark(kind.item_type)]
        )
        return None if None in inner else _nested(kind, inner)
    if types.is_string_view(kind) or types.is_large_string(kind):
        return pa.string()
    return kind if kind in _NAMES else None


def _nested(kind: pa.DataType, inner: list[pa.DataType]) -> pa.DataType:
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(field.name, each) for field, each in zip(kind, inner, strict=True)])
    return pa.map_(*inner) if pa.types.is_map(kind) else pa.list_(*inner)


def spark_type(kind: pa.DataType) -> str:
    """The name of a type in Spark's DDL; the empty text if Spark has none for it."""
    known = in_spark(kind)
    if known is None:
        return str(kind) if pa.types.is_duration(kind) or pa.types.is_interval(kind) else ""
    if pa.types.is_decimal(known):
        return f"decimal({known.precision},{known.scale})"
    if pa.types.is_struct(known):
        return f"struct<{', '.join(f'{quoted(field.name)}: {spark_type(field.type)}' for field in known)}>"
    if pa.types.is_map(known):
        return f"map<{spark_type(known.key_type)}, {spark_type(known.item_type)}>"
    return f"array<{spark_type(known.value_type)}>" if pa.types.is_list(known) else _NAMES[known]


def joined(one: pa.DataType, other: pa.DataType) -> pa.DataType | None:
    """The type of Spark that has all values of two types of Spark; None: there is none."""
    types = pa.types
    if one == other or types.is_null(other):
        return one
    if types.is_null(one):
        return other
    if types.is_struct(one) and types.is_struct(other):
        return _joined_structs(one, other)
    if types.is_list(one) and types.is_list(other):
        inner = [joined(one.value_type, other.value_type)]
    elif types.is_map(one) and types.is_map(other):
        inner = [joined(one.key_type, other.key_type), joined(one.item_type, other.item_type)]
    else:
        return _joined_numbers(one, other)
    return None if None in inner else _nested(one, inner)


def _joined_structs(one: pa.DataType, other: pa.DataType) -> pa.DataType | None:
    """The members of both. Case does not distinguish two."""
    fields = {field.name.lower(): field for field in one}
    for field in other:
        known = fields.setdefault(field.name.lower(), field)
        kind = joined(known.type, field.type)
        if kind is None:
            return None
        fields[field.name.lower()] = known.with_type(kind)
    return pa.struct(list(fields.values()))


def _joined_numbers(one: pa.DataType, other: pa.DataType) -> pa.DataType | None:
    if pa.types.is_floating(one) or pa.types.is_floating(other):
        exact = {pa.float64(): [pa.int8(), pa.int16(), pa.int32(), pa.float32()], pa.float32(): [pa.int8(), pa.int16()]}
        if pa.float32() in (one, other) and pa.int32() in (one, other):
            return pa.float64()
        return next((kind for kind, narrow in exact.items() if {one, other} <= {kind, *narrow}), None)
    if one in _DIGITS and other in _DIGITS:
        return max(one, other, key=_DIGITS.__getitem__)
    sizes = [(_DIGITS[kind], 0) if kind in _DIGITS else _size(kind) for kind in (one, other)]
    if None in sizes:
        return None
    whole = max(digits - scale for digits, scale in sizes if digits is not None)
    scale = max(scale for _, scale in sizes)
    return pa.decimal128(whole + scale, scale) if whole + scale <= _MOST_DIGITS else None


def _size(kind: pa.DataType) -> tuple[int, int] | None:
    return (kind.precision, kind.scale) if pa.types.is_decimal(kind) else None
