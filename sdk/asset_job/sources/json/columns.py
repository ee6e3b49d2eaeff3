"""Make columns of JSON values. Each scalar becomes its text, and the forms of texts decide whether it fits its column."""

from __future__ import annotations

import binascii
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from json import dumps
from typing import Any, Final, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from asset_job.sources.json.values import Number, Repeated, Value, bad_record, member
from asset_job.sources.options import ReadOptions
from asset_job.sources.records import BadRecord, Parsed
from asset_job.sources.texts.forms import converted, reason

_KINDS: Final[dict[type, str]] = {dict: "an object", Repeated: "an object", list: "an array", str: "a text"}
_KINDS |= {Number: "a number", bool: "true or false", type(None): "null"}
Path: TypeAlias = "tuple[str | int, ...]"
_Texts: TypeAlias = "Callable[[Any, Path, str], Any]"
"""Makes the texts of a value that is not null, from its path in the text of a record. Raises `_Misfit`."""
_Misfits: TypeAlias = "list[tuple[int, Path, pa.DataType, str]]"
"""Index, the path below it, and the text that is no value of the type there."""


class _Misfit(Exception):
    """A value does not fit its column."""


def scalars(kind: pa.DataType | pa.Schema) -> Iterator[pa.DataType]:
    """The types of the values that are neither object nor array; a map itself, unless its names are texts."""
    if isinstance(kind, pa.Schema) or pa.types.is_struct(kind):
        for each in kind:
            yield from scalars(each.type)
    elif pa.types.is_list(kind):
        yield from scalars(kind.value_type)
    elif pa.types.is_map(kind) and pa.types.is_string(kind.key_type):
        yield from scalars(kind.item_type)
    else:
        yield kind


@dataclass(frozen=True)
class JsonColumns:
    """Makes good rows in the columns, and bad records, of the values of a file."""

    columns: pa.Schema
    options: ReadOptions

    def parsed(self, values: Iterable[Value | BadRecord]) -> Iterator[Parsed]:
        """The good rows, in one batch, and the bad records."""
        rows: list[Any] = []
        sources: list[Value] = []
        for value in values:
            try:
                if isinstance(value, Value):
                    rows.append(self._row(value))
                    sources.append(value)
                else:
                    yield value
            except _Misfit as misfit:
                yield bad_record(value.text, value.line, str(misfit))
        array, misfits = self.typed(pa.array(rows, _as_texts(self._kind)), self._kind)
        reasons: dict[int, str] = {}
        for at, path, kind, text in misfits:
            reasons.setdefault(at, reason(_shown(path), kind, text))
        yield from (bad_record(sources[at].text, sources[at].line, why) for at, why in sorted(reasons.items()))
        good = array.filter(pa.array([at not in reasons for at in range(len(rows))])) if reasons else array
        if len(good):
            yield pa.RecordBatch.from_struct_array(good)

    def _row(self, value: Value) -> Any:
        if not value.text.isascii() and not _is_unicode(value.text):
            raise _Misfit("it holds bytes that are no text in its encoding")
        if "\\u" in value.text and not _is_unicode(dumps(value.value, ensure_ascii=False)):
            raise _Misfit("it holds half of a surrogate pair, which is no character")
        return self._texts(value.value, (), value.text)

    @cached_property
    def _kind(self) -> pa.DataType:
        return pa.struct(list(self.columns))

    @cached_property
    def _texts(self) -> _Texts:
        return _texts_of(self._kind)

    def typed(self, texts: pa.Array, kind: pa.DataType) -> tuple[pa.Array, _Misfits]:
        """The values of texts, and what does not fit."""
        if pa.types.is_struct(kind):
            if not kind.num_fields:
                return texts, []
            typed = [self.typed(texts.field(at), each.type) for at, each in enumerate(kind)]
            array = pa.StructArray.from_arrays([values for values, _ in typed], fields=list(kind), mask=texts.is_null())
            misfits = zip(kind, (misfits for _, misfits in typed), strict=True)
            return array, [(at, (each.name, *path), *why) for each, inner in misfits for at, path, *why in inner]
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


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _texts_of(kind: pa.DataType) -> _Texts:
    if pa.types.is_struct(kind):
        return _texts_of_struct(kind)
    if pa.types.is_list(kind):
        return _texts_of_list(_texts_of(kind.value_type))
    if pa.types.is_map(kind):
        return _texts_of_map(_texts_of(kind.item_type))
    return _bytes if pa.types.is_binary(kind) else partial(_text, kind)


def _texts_of_struct(kind: pa.DataType) -> _Texts:
    inner = [(each.name, _texts_of(each.type)) for each in kind]
    names = frozenset(name for name, _ in inner)

    def texts(value: Any, path: Path, record: str) -> Any:
        if not isinstance(value, dict):
            raise _misfit(value, path, "an object")
        if isinstance(value, Repeated) and value.names & names:
            raise _Misfit(f"the name {_shown((*path, min(value.names & names)))} comes more than once")
        members = ((name, of, value.get(name)) for name, of in inner)
        return tuple(item if item is None else of(item, (*path, name), record) for name, of, item in members)

    return texts


def _texts_of_list(inner: _Texts) -> _Texts:
    def texts(value: Any, path: Path, record: str) -> Any:
        if not isinstance(value, list):
            raise _misfit(value, path, "an array")
        return [item if item is None else inner(item, (*path, at), record) for at, item in enumerate(value)]

    return texts


def _texts_of_map(inner: _Texts) -> _Texts:
    def texts(value: Any, path: Path, record: str) -> Any:
        if not isinstance(value, dict):
            raise _misfit(value, path, "an object")
        if isinstance(value, Repeated):
            raise _Misfit(f"the name {_shown((*path, min(value.names)))} comes more than once")
        return [(name, item if item is None else inner(item, (*path, name), record)) for name, item in value.items()]

    return texts


def _text(kind: pa.DataType, value: Any, path: Path, record: str) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if kind == pa.string():
        return member(record, path)
    raise _Misfit(reason(_shown(path), kind, member(record, path)))


def _bytes(value: Any, path: Path, record: str) -> bytes:
    try:
        return binascii.a2b_base64("?" if isinstance(value, Number) else value, strict_mode=True)
    except (TypeError, ValueError):
        raise _Misfit(
            f"the column {_shown(path)} has the type binary, and {member(record, path)[:100]} is no base64"
        ) from None


def _misfit(value: Any, path: Path, expected: str) -> _Misfit:
    kind = _KINDS[type(value)]
    return _Misfit(
        f"the column {_shown(path)} is {expected}, and this is {kind}"
        if path
        else f"it is {kind}, and a row is an object"
    )


def _shown(path: Path) -> str:
    """A path such as `items[2].price`."""
    return "".join(f"[{each}]" if isinstance(each, int) else f".{each}" for each in path).removeprefix(".")
