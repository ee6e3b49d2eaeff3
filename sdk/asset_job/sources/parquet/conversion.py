"""Convert columns of Parquet files to the schema's types. What does not fit is marked, row by row; nothing is changed in silence."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, NamedTuple, TypeAlias
from uuid import UUID as Uuid

import pyarrow as pa
import pyarrow.compute as pc

from asset_job.errors import FileInvalid
from asset_job.sources.parquet.calendars import Calendars, days_rule, floor_divided, local_rule, moments_rule
from asset_job.sources.parquet.content import INT96, UUID
from asset_job.sources.parquet.sparktypes import spark_type

Misfit: TypeAlias = "tuple[pa.Array, str]"
"""Which rows do not fit, and why."""
Convert: TypeAlias = Callable[[Sequence[pa.Array], list[Misfit]], pa.Array]
"""Converts a column, read once or (with INT96) twice. What does not fit is null in the result, and added to the misfits."""
_MICROS: Final = pa.timestamp("us")
_UTC: Final = pa.timestamp("us", "UTC")
VALUE: Final = "\0"
"""What stands in a reason for the value."""
_FITS_NOT: Final = "does not fit"
_NANOSECONDS: Final = "has nanoseconds, which Spark has not: read with truncate=True to cut them off"
_CALENDAR: Final = (
    "is so early that its calendar or time zone matters, and the file does not say it: read with datetimeRebaseMode and "
    "int96RebaseMode, 'CORRECTED' or (with timeZone) 'LEGACY'"
)


class _Step(NamedTuple):
    apply: Callable[..., pa.Array]
    """Converts all values, or raises `ArrowInvalid` if any does not fit."""
    kind: pa.DataType
    reason: str = _FITS_NOT


@dataclass(frozen=True, kw_only=True)
class Conversions:
    """The conversions of one file's columns."""

    file: str
    calendars: Calendars
    truncate: bool
    time_zone: str
    """The zone of moments that are stored without one and read as `timestamp`."""

    def of(self, source: pa.DataType, target: pa.DataType, path: str) -> Convert:
        """The conversion of the column or member called `path`. Raises `FileInvalid` if there is none."""
        if pa.types.is_null(source):
            return lambda arrays, _: pa.nulls(len(arrays[0]), target)
        if pa.types.is_struct(source) and pa.types.is_struct(target):
            return self._structs(source, target, path)
        if pa.types.is_map(source) and pa.types.is_map(target):
            keys = self.of(source.key_type, target.key_type, f"{path}.key")
            return partial(_maps, target, keys, self.of(source.item_type, target.item_type, f"{path}.value"))
        if pa.types.is_list(source) and pa.types.is_list(target):
            return partial(_lists, target, self.of(source.value_type, target.value_type, f"{path}.element"))
        return partial(
            _stepwise, self._steps(source, target, path), f"the column {path} has the type {spark_type(target)}"
        )

    def _structs(self, source: pa.DataType, target: pa.DataType, path: str) -> Convert:
        names = self.names([field.name for field in source], [field.name for field in target], f"the column {path}")
        members: list[tuple[int, Convert] | None] = []
        for field in target:
            at = names.get(field.name)
            convert = None if at is None else self.of(source.field(at).type, field.type, f"{path}.{field.name}")
            members.append(None if at is None or convert is None else (at, convert))
        return partial(_struct, target, members)

    def names(self, in_file: Sequence[str], names: Sequence[str], where: str) -> dict[str, int]:
        """The place in the file of each name that it has. Case matters only where it distinguishes two names."""
        places: dict[str, int] = {}
        for name in names:
            same = [at for at, each in enumerate(in_file) if each == name]
            same = same or [at for at, each in enumerate(in_file) if each.lower() == name.lower()]
            if len(same) > 1:
                several = ", ".join(in_file[at] for at in same)
                raise FileInvalid(f"{self.file}: {where} has several of the name {name}: {several}; rename all but one")
            if same:
                places[name] = same[0]
        return places

    def _steps(self, source: pa.DataType, target: pa.DataType, path: str) -> list[_Step]:
        family, wanted_family = _family(source), _family(target)
        if family == "day" and wanted_family in {"day", "moment", "local"}:
            rule = days_rule(self.calendars.days)
            days = [_Step(lambda days: days.cast(pa.date32()), pa.date32()), *_ruled(rule, pa.date32())]
            return days if wanted_family == "day" else [*days, _cast(_MICROS), *self._moments("local", wanted_family)]
        if family in {"moment", "local", "int96"} and (steps := self._moments(family, wanted_family)):
            return [self._micros(source), *_ruled(self._rule(family), _MICROS), *steps]
        change = _CASTS.get((family, wanted_family))
        if change is None or (family == "float" and source.bit_width > target.bit_width):
            change = _narrowed if change else None
        if change is None:
            seen = spark_type(source) or f"{source}, which Spark has not"
            raise FileInvalid(
                f"{self.file}: the column {path} has the type {seen} and cannot be read as {spark_type(target)}: "
                "correct the schema, or leave the column out of it"
            )
        return [] if source == target and family in _EXACT else [_Step(partial(change, target), target)]

    def _micros(self, source: pa.DataType) -> _Step:
        """The step from any unit to microseconds without zone."""
        if source == INT96:
            return _Step(partial(_of_int96, self.truncate), _MICROS, _NANOSECONDS)
        if source.unit == "ns":
            return _Step(_cut if self.truncate else partial(_unzoned, _MICROS), _MICROS, _NANOSECONDS)
        return _Step(partial(_unzoned, _MICROS), _MICROS, "is outside the years of Spark's microseconds")

    def _rule(self, family: str) -> Callable[[pa.Array], pa.Array] | None:
        known = self.calendars
        if family == "local":
            return local_rule(known.days, by_spark=known.by_spark)
        return moments_rule(known.int96 if family == "int96" else known.days, known.zone)

    def _moments(self, family: str, wanted_family: str) -> list[_Step]:
        """The steps from microseconds without zone to the wanted type; none if it cannot be."""
        if wanted_family == "day":
            return [_Step(_midnights, pa.date32(), "has a time of day")]
        if wanted_family == "moment":
            local = family == "local" and self.time_zone != "UTC"
            if not local:
                return [_cast(_UTC)]
            reason = f"is no moment, or two, in {self.time_zone}"
            return [_Step(lambda each: pc.assume_timezone(each, self.time_zone).cast(_UTC), _UTC, reason)]
        return [_cast(_MICROS)] if (family, wanted_family) == ("local", "local") else []


def _cast(kind: pa.DataType) -> _Step:
    return _Step(lambda array: array.cast(kind), kind)


def _ruled(rule: Callable[[pa.Array], pa.Array] | None, kind: pa.DataType) -> list[_Step]:
    return [] if rule is None else [_Step(rule, kind, _CALENDAR)]


def _unzoned(kind: pa.DataType, array: pa.Array) -> pa.Array:
    return array.cast(pa.timestamp(array.type.unit)).cast(kind)


def _cut(array: pa.Array) -> pa.Array:
    return floor_divided(array.cast(pa.int64()), 1000).cast(_MICROS)


def _of_int96(truncate: bool, first: pa.Array, nanoseconds: pa.Array | None = None) -> pa.Array:
    """Microseconds from what was read in microseconds or, to be exact, in seconds and in nanoseconds modulo 2**64."""
    if nanoseconds is None:
        return first.cast(_MICROS)
    seconds = first.cast(pa.int64())
    parts = pc.subtract(nanoseconds.cast(pa.int64()), pc.multiply(seconds, 1_000_000_000))
    micros = pc.divide(parts, 1_000)
    if not truncate and not parts.equals(pc.multiply(micros, 1_000)):
        raise pa.ArrowInvalid
    return pc.add_checked(pc.multiply_checked(seconds, 1_000_000), micros).cast(_MICROS)


def _midnights(array: pa.Array) -> pa.Array:
    days = array.cast(pa.date32())
    if not days.cast(_MICROS).equals(array):
        raise pa.ArrowInvalid
    return days


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
        "text": lambda each: types.is_string(each) or types.is_large_string(each) or types.is_string_view(each),
        "bytes": lambda each: "binary" in str(each),
    }
    return next((name for name, holds in families.items() if holds(kind)), "")


def _safely(kind: pa.DataType, array: pa.Array) -> pa.Array:
    return array.cast(kind)


def _narrowed(kind: pa.DataType, array: pa.Array) -> pa.Array:
    narrow = array.cast(kind)
    if not pc.all(pc.or_(pc.equal(narrow.cast(array.type), array), pc.is_nan(array))).as_py() and len(array):
        raise pa.ArrowInvalid
    return narrow


def _decimals_of_integers(kind: pa.DataType, array: pa.Array) -> pa.Array:
    return array.cast(pa.decimal256(76, kind.scale)).cast(kind)


def _texts(kind: pa.DataType, array: pa.Array) -> pa.Array:
    return array.cast(pa.large_binary() if kind == pa.large_string() else pa.binary()).cast(kind)


def _texts_of_uuids(kind: pa.DataType, array: pa.Array) -> pa.Array:
    return pa.array([None if each is None else str(Uuid(bytes=each)) for each in _storage(array).to_pylist()], kind)


def _bytes(kind: pa.DataType, array: pa.Array) -> pa.Array:
    return _storage(array).cast(kind)


def _storage(array: pa.Array) -> pa.Array:
    return array.storage if isinstance(array, pa.ExtensionArray) else array


_EXACT: Final = {"integer", "float", "decimal", "boolean", "bytes"}
_CASTS: Final[Mapping[tuple[str, str], Callable[[pa.DataType, pa.Array], pa.Array]]] = {
    ("integer", "integer"): _safely,
    ("integer", "float"): _safely,
    ("integer", "decimal"): _decimals_of_integers,
    ("integer", "text"): _safely,
    ("float", "float"): _safely,
    ("float", "integer"): _safely,
    ("decimal", "decimal"): _safely,
    ("decimal", "integer"): _safely,
    ("decimal", "text"): _safely,
    ("boolean", "boolean"): _safely,
    ("boolean", "text"): _safely,
    ("text", "text"): _texts,
    ("text", "bytes"): _bytes,
    ("bytes", "text"): _texts,
    ("bytes", "bytes"): _bytes,
    ("uuid", "text"): _texts_of_uuids,
    ("uuid", "bytes"): _bytes,
}
"""The families of types of which the one can be read as the other, and how. No cast rounds, cuts or wraps a value."""


def _stepwise(steps: Sequence[_Step], subject: str, arrays: Sequence[pa.Array], misfits: list[Misfit]) -> pa.Array:
    readings = [
        each.dictionary_decode() if pa.types.is_dictionary(each.type) else each for each in map(_storage, arrays)
    ]
    for step in steps:
        fitting, bad = _tried(step, readings)
        if any(map(len, bad)) and (mask := pa.concat_arrays(bad)).true_count:
            misfits.append((mask, f"{subject}, and {VALUE} {step.reason}"))
        readings = [pa.concat_arrays(fitting) if len(fitting) > 1 else fitting[0]]
    return readings[0]


def _tried(step: _Step, arrays: Sequence[pa.Array]) -> tuple[list[pa.Array], list[pa.Array]]:
    """The converted values in pieces, and for each piece which values do not fit, which are null."""
    count = len(arrays[0])
    try:
        return [step.apply(*arrays)], [pa.repeat(pa.scalar(False), count)]
    except pa.ArrowInvalid:
        if count == 1:
            return [pa.nulls(1, step.kind)], [pa.array([True])]
    half = count // 2
    first, behind = (_tried(step, [each.slice(*limits) for each in arrays]) for limits in ((0, half), (half,)))
    return first[0] + behind[0], first[1] + behind[1]


def _struct(
    target: pa.DataType,
    members: Sequence[tuple[int, Convert] | None],
    arrays: Sequence[pa.Array],
    misfits: list[Misfit],
) -> pa.Array:
    arrays = [_storage(each) for each in arrays]
    children = [each.flatten() for each in arrays]
    values = [
        pa.nulls(len(arrays[0]), field.type)
        if member is None
        else member[1]([each[member[0]] for each in children], misfits)
        for field, member in zip(target, members, strict=True)
    ]
    return pa.StructArray.from_arrays(values, fields=list(target), mask=arrays[0].is_null())


def _lists(target: pa.DataType, convert: Convert, arrays: Sequence[pa.Array], misfits: list[Misfit]) -> pa.Array:
    lists = [_plain_list(each) for each in arrays]
    inner: list[Misfit] = []
    values = convert([each.flatten() for each in lists], inner)
    misfits += [(_rows_of(lists[0], mask), reason) for mask, reason in inner]
    return pa.ListArray.from_arrays(_offsets(lists[0]), values, type=target, mask=lists[0].is_null())


def _maps(
    target: pa.DataType, keys: Convert, items: Convert, arrays: Sequence[pa.Array], misfits: list[Misfit]
) -> pa.Array:
    lists = [_plain_list(each) for each in arrays]
    entries = [each.flatten().flatten() for each in lists]
    inner: list[Misfit] = []
    first, second = (convert([each[at] for each in entries], inner) for at, convert in enumerate((keys, items)))
    misfits += [(_rows_of(lists[0], mask), reason) for mask, reason in inner]
    return pa.MapArray.from_arrays(_offsets(lists[0]), first, second, type=target, mask=lists[0].is_null())


def _plain_list(array: pa.Array) -> pa.Array:
    array, kind = _storage(array), _storage(array).type
    if pa.types.is_map(kind):
        return array.cast(pa.list_(pa.struct([kind.key_field, kind.item_field])))
    return array if pa.types.is_list(kind) else array.cast(pa.list_(kind.value_field))


def _offsets(lists: pa.Array) -> pa.Array:
    lengths = pc.fill_null(pc.list_value_length(lists), 0)
    return pa.concat_arrays([pa.array([0], pa.int32()), pc.cumulative_sum(lengths).cast(pa.int32())])


def _rows_of(lists: pa.Array, mask: pa.Array) -> pa.Array:
    """The lists that have an element which the mask marks."""
    parents = pc.list_parent_indices(lists).filter(mask)
    return pc.is_in(pa.array(range(len(lists)), parents.type), value_set=parents)
