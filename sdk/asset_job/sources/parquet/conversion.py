"""Convert columns of Parquet files to the schema's types. What does not fit is marked, row by row; nothing is changed in silence."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, NamedTuple, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from asset_job.errors import FileInvalid
from asset_job.sources.parquet.calendars import Calendars, floor_divided
from asset_job.sources.parquet.sparktypes import INT96, LOCAL, MOMENT, UUID, spark_type

Misfit: TypeAlias = "tuple[pa.Array, str]"
"""Which rows do not fit, and why."""
Convert: TypeAlias = Callable[[Sequence[pa.Array], list[Misfit]], pa.Array]
"""Converts a column, read once or (with INT96) twice. What does not fit is null in the result, and added to the misfits."""
VALUE: Final = "\0"
"""What stands in a reason for the value."""
_CALENDAR: Final = (
    "is so early that its calendar or time zone matters, and the file does not say it: read with datetimeRebaseMode and "
    "int96RebaseMode, 'CORRECTED' or (with timeZone) 'LEGACY'"
)


class _Step(NamedTuple):
    apply: Callable[..., pa.Array]
    """Converts all values, or raises `ArrowInvalid` if any does not fit."""
    kind: pa.DataType
    reason: str = "does not fit"


@dataclass(frozen=True, kw_only=True)
class Conversions:
    """The conversions of one file's columns."""

    file: str
    calendars: Calendars
    truncate: bool
    time_zone: str
    """The zone of moments that are stored without one and read as `timestamp`."""

    def places(self, in_file: pa.DataType, names: Sequence[str], where: str) -> dict[str, int]:
        """The place in the file of each name that it has. Case matters only where it distinguishes two names."""
        places: dict[str, int] = {}
        known = [field.name for field in in_file]
        for name in names:
            same = [at for at, each in enumerate(known) if each == name]
            same = same or [at for at, each in enumerate(known) if each.lower() == name.lower()]
            if len(same) > 1:
                several = ", ".join(known[at] for at in same)
                raise FileInvalid(f"{self.file}: {where} has several of the name {name}: {several}; rename all but one")
            places |= {name: at for at in same}
        return places

    def of(self, source: pa.DataType, target: pa.DataType, path: str) -> Convert:
        """The conversion of the column or member called `path`. Raises `FileInvalid` if there is none."""
        types = pa.types
        if types.is_null(source):
            return lambda arrays, _: pa.nulls(len(arrays[0]), target)
        if types.is_struct(source) and types.is_struct(target):
            places = self.places(source, [field.name for field in target], f"the column {path}")
            members = [
                (at, self.of(source.field(at).type, target.field(name).type, f"{path}.{name}"))
                for name, at in places.items()
            ]
            return partial(_struct, target, dict(zip(places, members, strict=True)))
        if types.is_map(source) and types.is_map(target):
            entries = partial(_list, pa.list_(_entry(target)), self.of(_entry(source), _entry(target), path))
            return lambda arrays, misfits: _map(target, entries(arrays, misfits))
        if types.is_list(source) and types.is_list(target):
            return partial(_list, target, self.of(source.value_type, target.value_type, f"{path}.element"))
        steps = self._steps(source, target, path)
        return partial(_stepwise, steps, f"the column {path} has the type {spark_type(target)}")

    def _steps(self, source: pa.DataType, target: pa.DataType, path: str) -> list[_Step]:
        one, other = _family(source), _family(target)
        cast = _CASTS.get((one, other))
        if cast is None:
            raise FileInvalid(
                f"{self.file}: the column {path} has the type {spark_type(source)} and cannot be read as "
                f"{spark_type(target)}: correct the schema, or leave the column out of it"
            )
        if source == target and one in _EXACT:
            return []
        steps = [self._micros(source)] if pa.types.is_timestamp(source) else []
        if one in _IN_TIME and (rule := self.calendars.rule(one)):
            steps.append(_Step(rule, pa.date32() if one == "day" else LOCAL, _CALENDAR))
        if one in {"local", "day"} and other == "moment" and self.time_zone != "UTC":
            reason = f"is no moment, or two, in {self.time_zone}"
            return [*steps, _Step(partial(_in_zone, self.time_zone), MOMENT, reason)]
        return [*steps, _Step(partial(cast, target), target, *(["has a time of day"] if cast is _midnights else []))]

    def _micros(self, source: pa.DataType) -> _Step:
        """The step from any unit to microseconds without zone."""
        if source == INT96 or source.unit == "ns":
            reason = "has nanoseconds, which Spark has not: read with truncate=True to cut them off"
            return _Step(partial(_of_int96 if source == INT96 else _of_nanoseconds, self.truncate), LOCAL, reason)
        unzoned = pa.timestamp(source.unit)
        return _Step(lambda each: each.cast(unzoned).cast(LOCAL), LOCAL, "is outside the years that Spark has")


def _of_nanoseconds(truncate: bool, array: pa.Array) -> pa.Array:
    nanoseconds = array.cast(pa.timestamp("ns"))
    return floor_divided(nanoseconds.cast(pa.int64()), 1000).cast(LOCAL) if truncate else nanoseconds.cast(LOCAL)


def _of_int96(truncate: bool, first: pa.Array, nanoseconds: pa.Array | None = None) -> pa.Array:
    """Microseconds from what was read in microseconds or, to be exact, in seconds and in nanoseconds modulo 2**64."""
    if nanoseconds is None:
        return first.cast(LOCAL)
    seconds = first.cast(pa.int64())
    parts = pc.subtract(nanoseconds.cast(pa.int64()), pc.multiply(seconds, 1_000_000_000))
    micros = pc.divide(parts, 1_000)
    if not truncate and not parts.equals(pc.multiply(micros, 1_000)):
        raise pa.ArrowInvalid
    return pc.add_checked(pc.multiply_checked(seconds, 1_000_000), micros).cast(LOCAL)


def _in_zone(zone: str, array: pa.Array) -> pa.Array:
    return pc.assume_timezone(array.cast(LOCAL), zone).cast(MOMENT)


def _safely(kind: pa.DataType, array: pa.Array) -> pa.Array:
    return array.cast(kind)


def _midnights(kind: pa.DataType, array: pa.Array) -> pa.Array:
    return _back_again(array.cast(kind), array)


def _floats(kind: pa.DataType, array: pa.Array) -> pa.Array:
    numbers = array.filter(pc.is_finite(array)) if kind.bit_width < array.type.bit_width else array.slice(0, 0)
    _back_again(numbers.cast(kind), numbers)
    return array.cast(kind)


def _back_again(converted: pa.Array, array: pa.Array) -> pa.Array:
    """The converted values, if they are the original ones when they are converted back. Raises `ArrowInvalid`."""
    if not converted.cast(array.type).equals(array):
        raise pa.ArrowInvalid
    return converted


def _decimals_of_integers(kind: pa.DataType, array: pa.Array) -> pa.Array:
    return array.cast(pa.decimal256(76, kind.scale)).cast(kind)


def _texts(kind: pa.DataType, array: pa.Array) -> pa.Array:
    return array.cast(pa.binary()).cast(kind)  # casts from bytes see what is no UTF-8


def _texts_of_uuids(kind: pa.DataType, array: pa.Array) -> pa.Array:
    return pa.array([None if each is None else str(uuid.UUID(bytes=each)) for each in array.to_pylist()], kind)


def _family(kind: pa.DataType) -> str:
    types = pa.types
    if kind == UUID:
        return "uuid"
    if types.is_timestamp(kind):
        return "int96" if kind == INT96 else "moment" if kind.tz else "local"
    families = {
        "integer": types.is_integer,
        "float": types.is_floating,
        "decimal": types.is_decimal,
        "boolean": types.is_boolean,
        "day": types.is_date,
        "text": lambda each: "string" in str(each),
        "bytes": lambda each: "binary" in str(each),
    }
    return next((name for name, holds in families.items() if not types.is_nested(kind) and holds(kind)), "")


_EXACT: Final = {"integer", "float", "decimal", "boolean", "bytes"}
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
    ("integer", "decimal"): _decimals_of_integers,
    ("float", "integer"): _safely,
    ("float", "float"): _floats,
    ("text", "text"): _texts,
    ("bytes", "text"): _texts,
    ("uuid", "text"): _texts_of_uuids,
}
"""The families of types of which the one can be read as the other, and how. No cast rounds, cuts or wraps a value."""


def plain(array: pa.Array) -> pa.Array:
    """An array without what only Arrow distinguishes: extensions, dictionaries, kinds of lists and dates; maps are lists of entries."""
    array = array.storage if isinstance(array, pa.ExtensionArray) else array
    types, kind = pa.types, array.type
    if types.is_map(kind):
        return array.cast(pa.list_(pa.struct([kind.key_field, kind.item_field])))
    if types.is_nested(kind) and not types.is_struct(kind) and not types.is_list(kind):
        return array.cast(pa.list_(kind.value_field))
    if types.is_date64(kind):
        return array.cast(pa.date32())
    return array.dictionary_decode() if types.is_dictionary(kind) else array


def _stepwise(steps: Sequence[_Step], subject: str, arrays: Sequence[pa.Array], misfits: list[Misfit]) -> pa.Array:
    arrays = list(map(plain, arrays))
    for step in steps:
        values, mask = _tried(step, arrays)
        if mask is not None:
            misfits.append((mask, f"{subject}, and {VALUE} {step.reason}"))
        arrays = [values]
    return arrays[0]


def _tried(step: _Step, arrays: Sequence[pa.Array]) -> tuple[pa.Array, pa.Array | None]:
    """The converted values, and which did not fit, if any."""
    count = len(arrays[0])
    try:
        return step.apply(*arrays), None
    except pa.ArrowInvalid:
        if count == 1:
            return pa.nulls(1, step.kind), pa.array([True])
    halves = [_tried(step, [each.slice(*limits) for each in arrays]) for limits in ((0, count // 2), (count // 2,))]
    masks = [pa.repeat(pa.scalar(False), len(values)) if mask is None else mask for values, mask in halves]
    return pa.concat_arrays([values for values, _ in halves]), pa.concat_arrays(masks)


def _struct(
    target: pa.DataType, members: Mapping[str, tuple[int, Convert]], arrays: Sequence[pa.Array], misfits: list[Misfit]
) -> pa.Array:
    structs = list(map(plain, arrays))
    children = [each.flatten() for each in structs]
    values = {name: convert([each[at] for each in children], misfits) for name, (at, convert) in members.items()}
    columns = [values.get(field.name, pa.nulls(len(structs[0]), field.type)) for field in target]
    return pa.StructArray.from_arrays(columns, fields=list(target), mask=structs[0].is_null())


def _list(target: pa.DataType, convert: Convert, arrays: Sequence[pa.Array], misfits: list[Misfit]) -> pa.Array:
    lists = list(map(plain, arrays))
    first, inner = lists[0], list[Misfit]()
    values = convert([each.flatten() for each in lists], inner)
    for mask, reason in inner:
        parents = pc.list_parent_indices(first).filter(mask)
        misfits.append((pc.is_in(pa.array(range(len(first)), parents.type), value_set=parents), reason))
    ends = pc.cumulative_sum(pc.fill_null(pc.list_value_length(first), 0)).cast(pa.int32())
    offsets = pa.concat_arrays([pa.array([0], pa.int32()), ends])
    return pa.ListArray.from_arrays(offsets, values, type=target, mask=first.is_null())


def _entry(kind: pa.DataType) -> pa.DataType:
    return pa.struct([pa.field("key", kind.key_type, nullable=False), pa.field("value", kind.item_type)])


def _map(target: pa.DataType, lists: pa.Array) -> pa.Array:
    keys, values = lists.values.flatten()
    return pa.MapArray.from_arrays(lists.offsets, keys, values, type=target, mask=lists.is_null())
