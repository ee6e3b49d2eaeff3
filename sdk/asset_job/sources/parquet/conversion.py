"""Convert columns of Parquet files to the schema's types. A value that does not fit makes its row bad; none changes in silence."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from asset_job.errors import FileInvalid
from asset_job.sources.options import ReadOptions
from asset_job.sources.parquet.calendars import Calendars, ValueRefused, floor_divided, refuse_if
from asset_job.sources.parquet.sparktypes import INT96, LOCAL, UUID, spark_type
from asset_job.sources.texts.forms import in_zone

Bad: TypeAlias = dict[int, str]
"""The rows that do not fit, each with its reason, in which `VALUE` stands for the value."""
Convert: TypeAlias = Callable[[Sequence[pa.Array], Bad], pa.Array]
"""Converts a column that was read once or, with INT96, twice. What does not fit is null in the result."""
VALUE: Final = "\0"
_NANOSECONDS: Final = "has nanoseconds, which Spark has not: read with truncate=True to cut them off"
_CALENDAR: Final = (
    "is so early that its calendar or time zone matters, and the file does not say it: read with datetimeRebaseMode and "
    "int96RebaseMode, 'CORRECTED' or (with timeZone) 'LEGACY'"
)


@dataclass(frozen=True, kw_only=True)
class Conversions:
    """The conversions of one file's columns."""

    file: str
    calendars: Calendars
    options: ReadOptions

    def places(self, in_file: pa.DataType, names: Sequence[str], where: str) -> dict[str, int]:
        """The place in the file of each name that it has. Case matters only where it distinguishes two names."""
        known, places = [field.name for field in in_file], dict[str, int]()
        for name in names:
            same = [at for at, each in enumerate(known) if each == name]
            same = same or [at for at, each in enumerate(known) if each.lower() == name.lower()]
            if len(same) > 1:
                several = ", ".join(known[at] for at in same)
                raise FileInvalid(f"{self.file}: {where} has several of the name {name}: {several}; rename all but one")
            places |= {name: same[0]} if same else {}
        return places

    def of(self, source: pa.DataType, target: pa.DataType, path: str) -> Convert:
        """The conversion of the column or member called `path`. Raises `FileInvalid` if there is none."""
        types = pa.types
        if types.is_null(source):
            return lambda arrays, _: pa.nulls(len(arrays[0]), target)
        if types.is_struct(source) and types.is_struct(target):
            places = self.places(source, [field.name for field in target], f"the column {path}")
            members = {
                name: (at, self.of(source.field(at).type, target.field(name).type, f"{path}.{name}"))
                for name, at in places.items()
            }
            return partial(_struct, target, members)
        if types.is_map(source) and types.is_map(target):
            return partial(_map, target, self.of(_entries(source), _entries(target), path))
        if types.is_list(source) and types.is_list(target):
            return partial(_list, target, self.of(source.value_type, target.value_type, f"{path}.element"))
        subject = f"the column {path} has the type {spark_type(target)}, and {VALUE}"
        return partial(_leaf, self._steps(source, target, path), target, subject)

    def _steps(self, source: pa.DataType, target: pa.DataType, path: str) -> list[Callable[..., pa.Array]]:
        one, other = _family(source), _family(target)
        cast = _CASTS.get((one, other))
        if cast is None:
            raise FileInvalid(
                f"{self.file}: the column {path} has the type {spark_type(source)} and cannot be read as "
                f"{spark_type(target)}: correct the schema, or leave the column out of it"
            )
        rule = self.calendars.rule(one) if one in _IN_TIME else None
        if source == target and one != "text" and rule is None:
            return []
        steps: list[Callable[..., pa.Array]] = [] if rule is None else [partial(rule, _CALENDAR)]
        if pa.types.is_timestamp(source):
            steps.insert(0, partial(_of_int96 if source == INT96 else _of_any_unit, self.options.truncate))
        if one in {"local", "day"} and other == "moment" and self.options.time_zone != "UTC":
            cast = partial(_in_zone, self.options.time_zone)
        return [*steps, partial(cast, target)]


def _of_any_unit(truncate: bool, array: pa.Array) -> pa.Array:
    unzoned = array.cast(pa.timestamp(array.type.unit))
    if truncate and array.type.unit == "ns":
        return floor_divided(unzoned.cast(pa.int64()), 1000).cast(LOCAL)
    try:
        return unzoned.cast(LOCAL)
    except pa.ArrowInvalid:
        raise ValueRefused(_NANOSECONDS if array.type.unit == "ns" else "is outside the years that Spark has") from None


def _of_int96(truncate: bool, first: pa.Array, nanoseconds: pa.Array | None = None) -> pa.Array:
    """Microseconds from what was read in microseconds or, to be exact, in seconds and in nanoseconds modulo 2**64."""
    if nanoseconds is None:
        return first.cast(LOCAL)
    seconds = first.cast(pa.int64())
    parts = pc.subtract(nanoseconds.cast(pa.int64()), pc.multiply(seconds, 1_000_000_000))
    micros = pc.divide(parts, 1_000)
    refuse_if(not truncate and not parts.equals(pc.multiply(micros, 1_000)), _NANOSECONDS)
    return pc.add_checked(pc.multiply_checked(seconds, 1_000_000), micros).cast(LOCAL)


def _in_zone(zone: str, kind: pa.DataType, array: pa.Array) -> pa.Array:
    local = array.cast(LOCAL)
    moments = in_zone(local, zone, kind)
    is_one = moments.null_count == array.null_count and moments.equals(in_zone(local, zone, kind, later=True))
    refuse_if(not is_one, f"is no moment, or two, in {zone}, or is not of the years 1 to 9999")
    return moments


def _safely(kind: pa.DataType, array: pa.Array) -> pa.Array:
    return array.cast(kind)


def _midnights(kind: pa.DataType, array: pa.Array) -> pa.Array:
    days = array.cast(kind)
    refuse_if(not days.cast(LOCAL).equals(array), "has a time of day")
    return days


def _floats(kind: pa.DataType, array: pa.Array) -> pa.Array:
    numbers = array.filter(pc.is_finite(array)) if kind.bit_width < array.type.bit_width else array.slice(0, 0)
    refuse_if(not numbers.cast(kind).cast(array.type).equals(numbers), "has more digits")
    return array.cast(kind)


def _decimals_of_integers(kind: pa.DataType, array: pa.Array) -> pa.Array:
    return array.cast(pa.decimal256(76, kind.scale)).cast(kind)


def _texts(kind: pa.DataType, array: pa.Array) -> pa.Array:
    return array.cast(pa.binary()).cast(kind)  # a cast from bytes sees what is no UTF-8


def _texts_of_uuids(kind: pa.DataType, array: pa.Array) -> pa.Array:
    return pa.array([each and str(uuid.UUID(bytes=each)) for each in array.to_pylist()], kind)


def _family(kind: pa.DataType) -> str:
    types = pa.types
    if types.is_timestamp(kind):
        return "int96" if kind == INT96 else "moment" if kind.tz else "local"
    families = {
        "": types.is_nested,
        "uuid": UUID.equals,
        "integer": types.is_integer,
        "float": types.is_floating,
        "decimal": types.is_decimal,
        "boolean": types.is_boolean,
        "day": types.is_date,
        "text": lambda each: "string" in str(each),
        "bytes": lambda each: "binary" in str(each),
    }
    return next((name for name, holds in families.items() if holds(kind)), "")


_IN_TIME: Final = {"day", "local", "moment", "int96"}
_CASTS: Final[Mapping[tuple[str, str], Callable[[pa.DataType, pa.Array], pa.Array]]] = {
    **dict.fromkeys([("integer", each) for each in ("integer", "float", "text")], _safely),
    **dict.fromkeys([("decimal", each) for each in ("integer", "decimal", "text")], _safely),
    **dict.fromkeys([("boolean", each) for each in ("boolean", "text")], _safely),
    **dict.fromkeys([("day", each) for each in ("day", "local", "moment")], _safely),
    **dict.fromkeys([(each, "bytes") for each in ("text", "bytes", "uuid")], _safely),
    **dict.fromkeys([(each, "moment") for each in ("local", "moment", "int96")], _safely),
    **dict.fromkeys([(each, "day") for each in ("local", "moment", "int96")], _midnights),
    ("local", "local"): _safely,
    ("float", "integer"): _safely,
    ("float", "float"): _floats,
    ("integer", "decimal"): _decimals_of_integers,
    ("uuid", "text"): _texts_of_uuids,
    ("text", "text"): _texts,
    ("bytes", "text"): _texts,
}
"""The families of types of which the one can be read as the other, and how. No cast rounds, cuts or wraps a value."""


def plain(array: pa.Array) -> pa.Array:
    """An array without what only Arrow distinguishes: extensions, dictionaries, kinds of lists and dates; maps are lists."""
    array = array.storage if isinstance(array, pa.ExtensionArray) else array
    types, kind = pa.types, array.type
    if types.is_dictionary(kind):
        return array.dictionary_decode()
    if types.is_date64(kind) or types.is_decimal32(kind) or types.is_decimal64(kind):
        return array.cast(pa.date32() if types.is_date64(kind) else pa.decimal128(kind.precision, kind.scale))
    if types.is_map(kind):
        return array.cast(pa.list_(pa.struct([kind.key_field, kind.item_field])))
    lists = types.is_nested(kind) and not types.is_struct(kind)
    return array.cast(pa.list_(kind.value_field)) if lists and not types.is_list(kind) else array


def _leaf(
    steps: Sequence[Callable[..., pa.Array]],
    target: pa.DataType,
    subject: str,
    arrays: Sequence[pa.Array],
    bad: Bad,
    at: int = 0,
) -> pa.Array:
    """The values from the row `at` on. Halves are tried until the values are alone that a step refuses by `ArrowInvalid`."""
    values, count = list(map(plain, arrays)), len(arrays[0])
    try:
        for step in steps:
            values = [step(*values)]
    except pa.ArrowInvalid as error:
        if count == 1:
            bad[at] = f"{subject} {error if isinstance(error, ValueRefused) else 'does not fit'}"
            return pa.nulls(1, target)
    else:
        return values[0]
    limits = ((0, count // 2), (count // 2, count))
    halves = [
        _leaf(steps, target, subject, [each[slice(*part)] for each in arrays], bad, at + part[0]) for part in limits
    ]
    return pa.concat_arrays(halves)


def _struct(
    target: pa.DataType, members: Mapping[str, tuple[int, Convert]], arrays: Sequence[pa.Array], bad: Bad
) -> pa.Array:
    structs = list(map(plain, arrays))
    children = [each.flatten() for each in structs]
    values = {name: convert([each[at] for each in children], bad) for name, (at, convert) in members.items()}
    columns = [values.get(field.name, pa.nulls(len(structs[0]), field.type)) for field in target]
    return pa.StructArray.from_arrays(columns, fields=list(target), mask=structs[0].is_null())


def _list(target: pa.DataType, convert: Convert, arrays: Sequence[pa.Array], bad: Bad) -> pa.Array:
    lists = list(map(plain, arrays))
    first, inner = lists[0], Bad()
    values = convert([each.flatten() for each in lists], inner)
    if inner:
        parents = pc.list_parent_indices(first)
        bad.update({parents[at].as_py(): why for at, why in inner.items()})
    ends = pc.cumulative_sum(pc.fill_null(pc.list_value_length(first), 0)).cast(pa.int32())
    offsets = pa.concat_arrays([pa.array([0], pa.int32()), ends])
    return pa.ListArray.from_arrays(offsets, values, type=target, mask=first.is_null())


def _entries(kind: pa.DataType) -> pa.DataType:
    return pa.list_(pa.struct([pa.field("key", kind.key_type, nullable=False), pa.field("value", kind.item_type)]))


def _map(target: pa.DataType, entries: Convert, arrays: Sequence[pa.Array], bad: Bad) -> pa.Array:
    lists = entries(arrays, bad)
    return pa.MapArray.from_arrays(lists.offsets, *lists.values.flatten(), type=target, mask=lists.is_null())
