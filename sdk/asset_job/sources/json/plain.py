"""Read lines with Arrow, many times as fast, where it reads the same as RFC 8259 and the forms of texts say.

Arrow rejects most of what is no JSON or does not fit a column. What it accepts but reads differently is recognized before:
numbers that become 0 or infinity, a `null` between objects, words such as `NaN`, and what is nested too deep.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import json

from asset_job.sources.json.columns import JsonColumns, scalars
from asset_job.sources.json.values import DEPTH

_IN_NUMBER: Final = r'[:\[,]\s*"?[+-]?'
_WORD: Final = _IN_NUMBER + "(?:Inf|NaN)"
_TINY: Final = rf"{_IN_NUMBER}(?:[1-9][0-9.]*[eE]-(?:[4-9][0-9]|[0-9]{{3}})|0[0-9.]*[eE]-|0\.0{{40}})|[0-9]{{39}}"
"""Numbers that may be too small or too large for a double."""
_WITH_EXPONENT: Final = rf'{_IN_NUMBER}[0-9.]+[eE][+-]?[0-9]+["\s,}}\]]|[0-9]{{39}}|\\u00(?:2[bdeBDE]|3[0-9]|[46]5)'
"""Numbers of which Arrow may make another decimal, or end the process; also in texts, and with escapes."""


@dataclass(frozen=True)
class PlainLines:
    """Reads lines of objects into the columns."""

    columns: JsonColumns
    as_read: pa.Schema
    unsure: str

    @classmethod
    def of(cls, columns: JsonColumns) -> PlainLines | None:
        """The reader; None if Arrow has no way to read a column."""
        if not len(columns.columns) or any(_is_unknown(kind) for kind in columns.columns.types):
            return None
        kinds = set(scalars(columns.columns))
        unsure = [_WORD]
        if pa.float64() in kinds:
            unsure.append(_TINY)
        if pa.float32() in kinds or any(pa.types.is_decimal(kind) for kind in kinds):
            unsure.append(_WITH_EXPONENT)
        return cls(
            columns, pa.schema([field.with_type(_as_read(field.type)) for field in columns.columns]), "|".join(unsure)
        )

    def read(self, lines: str) -> pa.RecordBatch | None:
        """The rows of whole lines; None if they may be others than the values say."""
        try:
            text = pa.array([lines])
        except UnicodeEncodeError:
            return None
        lines = lines.removesuffix("\n").removesuffix("\r")
        ends = lines.count("\n")
        if not lines.startswith("{") or not lines.endswith("}") or "\0" in lines or lines.count("\r") > ends + 1:
            return None
        if lines.count("}\n{") + ("\r" in lines and lines.count("}\r\n{")) != ends or not self._is_sure(text):
            return None
        content = text.buffers()[2]
        try:
            table = json.read_json(
                pa.BufferReader(content),
                json.ReadOptions(use_threads=False, block_size=content.size + 1),
                json.ParseOptions(explicit_schema=self.as_read, unexpected_field_behavior="ignore"),
            )
            rows = pa.array([]) if len(table) != ends + 1 else table.to_struct_array().combine_chunks()
            array, misfits = self.columns.typed(rows, pa.struct(list(self.columns.columns)))
        except pa.ArrowException:
            return None
        return None if misfits else pa.RecordBatch.from_struct_array(array)

    def _is_sure(self, text: pa.Array) -> bool:
        """Whether the text has nothing that Arrow may read as another value."""
        if pc.match_substring_regex(text, self.unsure)[0].as_py():
            return False
        lines = pc.list_flatten(pc.split_pattern(text, "\n"))
        levels = pc.add(pc.count_substring(lines, "{"), pc.count_substring(lines, "["))
        return bool(pc.max(levels).as_py() <= DEPTH)


def _is_unknown(kind: pa.DataType) -> bool:
    if pa.types.is_struct(kind):
        return not kind.num_fields or any(_is_unknown(each.type) for each in kind)
    return _is_unknown(kind.value_type) if pa.types.is_list(kind) else pa.types.is_map(kind) or pa.types.is_binary(kind)


def _as_read(kind: pa.DataType) -> pa.DataType:
    """The type in which Arrow reads a value, which is then cast. Its own reading of times and decimals is not strict."""
    if pa.types.is_struct(kind):
        return pa.struct([each.with_type(_as_read(each.type)) for each in kind])
    if pa.types.is_list(kind):
        return pa.list_(_as_read(kind.value_type))
    if pa.types.is_decimal(kind):
        return pa.decimal256(76, kind.scale)
    return pa.string() if pa.types.is_temporal(kind) else kind
