"""Make columns of JSON values. Each scalar becomes its text, and the forms of texts decide whether it fits its column."""

from __future__ import annotations

import binascii
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Final, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from asset_job.errors import SourceInvalid
from asset_job.sources.json.strict import Number, Repeated, member
from asset_job.sources.json.values import Value, bad_record
from asset_job.sources.options import ReadOptions
from asset_job.sources.records import BadRecord, Parsed
from asset_job.sources.texts.forms import converted, reason

_ESCAPES: Final = re.compile(r"\\(?:u[dD][89abAB]..\\u[dD][c-fC-F]..|(u[dD][89a-fA-F])|.)")
"""The escapes in texts, in their order. A half of a surrogate pair is a group."""
_SCALARS: Final = frozenset(
    [
        *(pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.float32(), pa.float64(), pa.bool_(), pa.string()),
        *(pa.date32(), pa.timestamp("us"), pa.timestamp("us", "UTC")),
    ]
)
_SHORTENED: Final = 100
"""The characters of a value that a reason shows."""
Path: TypeAlias = "tuple[str | int, ...]"
_Texts: TypeAlias = "Callable[[Any, Path, str], Any]"
"""Makes the texts of a value that is not null, from its path in the text of a record. Raises `_Misfit`."""
_Misfits: TypeAlias = "list[tuple[int, Path, pa.DataType, str]]"
"""Index, the path below it, and the text that is no value of the type there."""


class _Misfit(Exception):
    """A value does not fit its column."""


@dataclass(frozen=True)
class JsonColumns:
    """Makes good rows in the columns, and bad records, of the values of a file."""

    columns: pa.Schema
    options: ReadOptions

    def __post_init__(self) -> None:
        """Raise `SourceInvalid` if a column has a type that JSON does not have."""
        self._texts  # noqa: B018 - makes it

    def parsed(self, values: Iterable[Value | BadRecord]) -> Iterator[Parsed]:
        """The good rows, in one batch, and the bad records."""
        rows: list[Any] = []
        sources: list[Value] = []
        for value in values:
            if isinstance(value, BadRecord):
                yield value
                continue
            try:
                rows.append(self._row(value))
                sources.append(value)
            except _Misfit as misfit:
                yield bad_record(value.text, value.line, str(misfit))
        array, misfits = self.typed(pa.array(rows, _as_texts(self.kind)), self.kind)
        reasons: dict[int, str] = {}
        for at, path, kind, text in misfits:
            reasons.setdefault(at, reason(_shown(path), kind, text, self.options))
        for at, field in self.missing(array):
            reasons.setdefault(at, reason(field.name, field.type, None, self.options))
        yield from (bad_record(sources[at].text, sources[at].line, why) for at, why in sorted(reasons.items()))
        good = array.filter(pa.array([at not in reasons for at in range(len(rows))])) if reasons else array
        if len(good):
            yield pa.RecordBatch.from_struct_array(good)

    def missing(self, rows: pa.Array) -> list[tuple[int, pa.Field]]:
        """The rows without a value of a column that is NOT NULL."""
        required = [(pc.struct_field(rows, at), field) for at, field in enumerate(self.columns) if not field.nullable]
        return [(at, field) for each, field in required for at in pc.indices_nonzero(each.is_null()).to_pylist()]

    def _row(self, value: Value) -> Any:
        if problem := fault(value):
            raise _Misfit(problem)
        return self._texts(value.value, (), value.text)

    @cached_property
    def kind(self) -> pa.DataType:
        """The type of a row."""
        return pa.struct(list(self.columns))

    @cached_property
    def _texts(self) -> _Texts:
        return _texts_of(self.kind, self.options)

    def typed(self, texts: pa.Array, kind: pa.DataType) -> tuple[pa.Array, _Misfits]:
        """The values of texts, and what does not fit."""
        if pa.types.is_struct(kind):
            if not kind.num_fields:
                return texts, []
            typed = [self.typed(pc.struct_field(texts, at), each.type) for at, each in enumerate(kind)]
            array = pa.StructArray.from_arrays([values for values, _ in typed], fields=list(kind), mask=texts.is_null())
            inner = zip(kind, typed, strict=True)
            return array, [(at, (each.name, *path), *why) for each, (_, some) in inner for at, path, *why in some]
        if pa.types.is_list(kind):
            values, misfits = self.typed(texts.values, kind.value_type)
            array = pa.ListArray.from_arrays(texts.offsets, values, type=kind, mask=texts.is_null())
            return array, _outward(texts, misfits, None)
        if pa.types.is_map(kind):
            values, misfits = self.typed(texts.items, kind.item_type)
            array = pa.MapArray.from_arrays(texts.offsets, texts.keys, values, type=kind, mask=texts.is_null())
            return array, _outward(texts, misfits, texts.keys)
        if not pa.types.is_string(texts.type):
            return texts.cast(kind), []
        values, fits = converted(texts, kind, self.options)
        wrong = pc.indices_nonzero(pc.invert(fits)).to_pylist() if fits.false_count else []
        return values, [(at, (), kind, texts[at].as_py()) for at in wrong]


def _outward(holders: pa.Array, misfits: _Misfits, keys: pa.Array | None) -> _Misfits:
    """The misfits among the items of lists or maps as misfits of these."""
    if not misfits:
        return []
    parents = pc.list_parent_indices(pa.ListArray.from_arrays(holders.offsets, pa.nulls(holders.offsets[-1].as_py())))
    outward: _Misfits = []
    for at, path, *why in misfits:
        parent = parents[at].as_py()
        key = at - holders.offsets[parent].as_py() if keys is None else keys[at].as_py()
        outward.append((parent, (key, *path), *why))
    return outward


def _as_texts(kind: pa.DataType) -> pa.DataType:
    """The same type, with texts for all scalars."""
    if pa.types.is_struct(kind):
        return pa.struct([each.with_type(_as_texts(each.type)) for each in kind])
    if pa.types.is_list(kind):
        return pa.list_(_as_texts(kind.value_type))
    if pa.types.is_map(kind):
        return pa.map_(pa.string(), _as_texts(kind.item_type))
    return kind if pa.types.is_binary(kind) else pa.string()


def fault(value: Value) -> str | None:
    """Why a value has texts that are no characters."""
    if ("\\ud" in value.text or "\\uD" in value.text) and any(match[1] for match in _ESCAPES.finditer(value.text)):
        return "it holds half of a surrogate pair, which is no character"
    try:
        value.text.encode()
    except UnicodeEncodeError:
        return "it holds bytes that are no text in its encoding"
    return None


def _texts_of(kind: pa.DataType, options: ReadOptions) -> _Texts:
    if pa.types.is_struct(kind):
        return _texts_of_struct([(each.name, _texts_of(each.type, options)) for each in kind])
    if pa.types.is_list(kind):
        return _texts_of_list(_texts_of(kind.value_type, options))
    if pa.types.is_map(kind) and pa.types.is_string(kind.key_type):
        return _texts_of_map(_texts_of(kind.item_type, options))
    if kind in _SCALARS or pa.types.is_decimal(kind):
        return partial(_text, kind, options)
    if pa.types.is_binary(kind):
        return _bytes
    raise SourceInvalid(f"values of JSON cannot be read in the type {kind}: read them as string, and cast them")


def _texts_of_struct(inner: list[tuple[str, _Texts]]) -> _Texts:
    names = frozenset(name for name, _ in inner)

    def texts(value: Any, path: Path, record: str) -> Any:
        members = _checked(value, dict, names, path, record)
        own = {} if names <= members.keys() else _in_other_case(names, members, path)
        items = ((own.get(name, name), of) for name, of in inner)
        return tuple(
            None if members.get(name) is None else of(members[name], (*path, name), record) for name, of in items
        )

    return texts


def _in_other_case(names: frozenset[str], members: Mapping[str, Any], path: Path) -> dict[str, str]:
    """The names of members that are a column's but for their case, where no member has the column's own."""
    own: dict[str, str] = {}
    columns = {name.lower(): name for name in names - members.keys()}
    for name in members.keys() - names:
        column = columns.get(name.lower())
        if column in own:
            raise _Misfit(f"the names {own[column]} and {name} are both {_shown((*path, column))} but for their case")
        if column is not None:
            own[column] = name
    return own


def _texts_of_map(inner: _Texts) -> _Texts:
    def texts(value: Any, path: Path, record: str) -> Any:
        members = _checked(value, dict, value, path, record)
        return [(name, item if item is None else inner(item, (*path, name), record)) for name, item in members.items()]

    return texts


def _texts_of_list(inner: _Texts) -> _Texts:
    def texts(value: Any, path: Path, record: str) -> Any:
        items = enumerate(_checked(value, list, (), path, record))
        return [item if item is None else inner(item, (*path, at), record) for at, item in items]

    return texts


def _checked(value: Any, expected: type, names: Iterable[str], path: Path, record: str) -> Any:
    """The value. Raises `_Misfit` if it has another type, or one of the names more than once."""
    if not isinstance(value, expected):
        place = f"the column {_shown(path)}" if path else "a record"
        kind = "an object" if expected is dict else "an array"
        raise _Misfit(f"{place} is {kind}, and {member(record, path)[:_SHORTENED]!r} is none")
    if isinstance(value, Repeated) and (twice := value.names.intersection(names)):
        raise _Misfit(f"the name {_shown((*path, min(twice)))} comes more than once in one object")
    return value


def _text(kind: pa.DataType, options: ReadOptions, value: Any, path: Path, record: str) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if kind == pa.string():
        return member(record, path)
    raise _Misfit(reason(_shown(path), kind, member(record, path), options))


def _bytes(value: Any, path: Path, record: str) -> bytes:
    try:
        return binascii.a2b_base64("?" if isinstance(value, Number) else value, strict_mode=True)
    except (TypeError, ValueError):
        text = member(record, path)[:_SHORTENED]
        raise _Misfit(f"the column {_shown(path)} has the type binary, and {text!r} is no text in base64") from None


def _shown(path: Path) -> str:
    """A path such as `items[2].price`."""
    return "".join(f"[{each}]" if isinstance(each, int) else f".{each}" for each in path).removeprefix(".")
