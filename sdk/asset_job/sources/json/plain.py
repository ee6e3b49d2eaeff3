"""Read lines with Arrow, many times as fast, where it reads the same as RFC 8259 and the forms of texts say.

Arrow rejects most of what is no JSON or does not fit a column. What it accepts but reads differently is recognized before:
numbers that become 0 or infinity, a `null` between objects, words such as `NaN`, and what is nested too deep.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import json

from asset_job.sources.json.columns import JsonColumns
from asset_job.sources.json.strict import DEPTH

_UNSURE: Final = (
    r'[:\[,]\s*"?[+-]?(?:Inf|NaN|[0-9.]+[eE][+-]?[0-9]+["\s,}\]])|[0-9]{39}|\\u00(?:2[bdeBDE]|3[0-9]|[46]5)'
)
"""Numbers with many digits or an exponent, which may become 0 or infinity, or as decimals another number or the end of the
process; also in texts, and in their escapes. Words that are no numbers."""


@dataclass(frozen=True)
class PlainLines:
    """Reads lines of objects into the columns."""

    columns: JsonColumns

    @cached_property
    def _schema(self) -> pa.Schema | None:
        """The columns as Arrow reads them; None if it has no way to."""
        kind = self.columns.kind
        known = kind.num_fields and not re.search("map<|binary|struct<>", str(kind))
        return pa.schema(_as_read(kind)) if known else None

    def read(self, lines: str) -> pa.RecordBatch | None:
        """The rows of whole lines; None if they may be others than the values say."""
        content = lines.removesuffix("\n").removesuffix("\r")
        if not self._schema or not _are_objects(content):
            return None
        try:
            text = pa.array([content])
            if pc.match_substring_regex(text, _UNSURE)[0].as_py() or not _are_flat(text):
                return None
            table = self._table(text)
            if table is None:
                return None
            array, misfits = self.columns.typed(table.to_struct_array().combine_chunks(), self.columns.kind)
        except (pa.ArrowException, UnicodeEncodeError):
            return None
        if misfits or self.columns.missing(array) or len(array) != content.count("\n") + 1:
            return None
        return pa.RecordBatch.from_struct_array(array)

    def _table(self, text: pa.Array) -> pa.Table | None:
        """The columns of lines; None if one may be there under a name in another case, which Arrow would ignore."""
        schema: pa.Schema = self._schema
        try:
            table = _read(text, schema, "infer")
        except pa.ArrowException:  # what the columns lack may have values of several types
            names = f'"(?:{"|".join(map(re.escape, sorted(_names_in(self.columns.kind))))})"'
            exact, any_case = (pc.count_substring_regex(text, names, ignore_case=ignore) for ignore in (False, True))
            return _read(text, schema, "ignore") if exact[0] == any_case[0] else None
        if _has_other_case(pa.struct(list(table.schema)), self.columns.kind):
            return None
        chosen = table.select(schema.names)
        return chosen if chosen.schema.equals(schema) else _read(text, schema, "ignore")


def _read(text: pa.Array, schema: pa.Schema, others: str) -> pa.Table:
    """The lines as Arrow reads them, with `others` for what the schema lacks."""
    buffer = text.buffers()[2]
    return json.read_json(
        pa.BufferReader(buffer),
        json.ReadOptions(use_threads=False, block_size=buffer.size + 1),
        json.ParseOptions(explicit_schema=schema, unexpected_field_behavior=others),
    )


def _has_other_case(read: pa.DataType, kind: pa.DataType) -> bool:
    """Whether a struct that was read, or one below it, has a name that is a column's but for its case."""
    if pa.types.is_list(read) and pa.types.is_list(kind):
        return _has_other_case(read.value_type, kind.value_type)
    if not (pa.types.is_struct(read) and pa.types.is_struct(kind)):
        return False
    names = {each.name for each in kind}
    lower = {name.lower() for name in names}
    others = (each.name for each in read if each.name not in names)
    return any(name.lower() in lower for name in others) or any(
        _has_other_case(read.field(each.name).type, each.type) for each in kind
    )


def _names_in(kind: pa.DataType) -> set[str]:
    """The names of a struct's members, and of those below them."""
    if pa.types.is_list(kind):
        return _names_in(kind.value_type)
    if not pa.types.is_struct(kind):
        return set()
    return {name for each in kind for name in (each.name, *_names_in(each.type))}


def _are_objects(lines: str) -> bool:
    """Whether each line begins and ends an object. No other line end is counted in what is skipped."""
    ends = lines.count("\n")
    between = lines.count("}\n{") + (lines.count("}\r\n{") if "\r" in lines else 0)
    return (
        lines[:1] == "{" and lines[-1:] == "}" and between == ends and lines.count("\r") <= ends and "\0" not in lines
    )


def _are_flat(text: pa.Array) -> bool:
    """Whether no line can be nested too deep."""
    lines = pc.list_flatten(pc.split_pattern(text, "\n"))
    return bool(pc.max(pc.add(pc.count_substring(lines, "{"), pc.count_substring(lines, "["))).as_py() <= DEPTH)


def _as_read(kind: pa.DataType) -> pa.DataType:
    """The type in which Arrow reads a value, which is then cast. Its own reading of times and decimals is not strict."""
    if pa.types.is_struct(kind):
        return pa.struct([each.with_type(_as_read(each.type)) for each in kind])
    if pa.types.is_list(kind):
        return pa.list_(_as_read(kind.value_type))
    if pa.types.is_decimal(kind):
        return pa.decimal256(76, kind.scale)
    return pa.string() if pa.types.is_temporal(kind) else kind
