"""The smallest and the largest value of a column in a file, measured in the rows themselves. Pure.

The statistics in a Parquet footer would not do: they ignore NaN and leave out long texts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

_LONGEST_TEXT = 64
"""Characters of a text that is kept as a bound."""
_LAST = "\U0010ffff"
"""The character that ends a bound, because readers of Delta tables take it for the mark of a shortened text."""
_BEFORE_SURROGATES, _AFTER_SURROGATES = "\ud7ff", "\ue000"


@dataclass(frozen=True, kw_only=True)
class Bounds:
    """What is known of a column's values: none is below `smallest` or above `largest`, and none is NaN."""

    nulls: int
    values: int
    """How many values are not null."""
    smallest: Any = None
    """A bool, float, text or decimal, or an int: a date is its days since 1970, a time or timestamp its microseconds."""
    largest: Any = None

    @property
    def known(self) -> bool:
        """Whether all values, if there are any, are between the bounds."""
        return not self.values or self.smallest is not None

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Bounds:
        """The bounds that `asdict` made into JSON. A decimal stays a text."""
        return cls(
            nulls=content["nulls"],
            values=content["values"],
            smallest=content["smallest"],
            largest=content["largest"],
        )

    def joined(self, other: Bounds) -> Bounds:
        """The bounds of the values of both."""
        nulls, values = self.nulls + other.nulls, self.values + other.values
        with_values = [each for each in (self, other) if each.values]
        if not with_values or not (self.known and other.known):
            return Bounds(nulls=nulls, values=values)
        smallest, largest = (min(each.smallest for each in with_values), max(each.largest for each in with_values))
        return Bounds(nulls=nulls, values=values, smallest=smallest, largest=largest)


def bounds_of(column: Any) -> Bounds:
    """The bounds of an Arrow column. They are unknown for nested columns and binaries, and for a column with a NaN."""
    kind, nulls = column.type, column.null_count
    values = len(column) - nulls
    has_order = not (pa.types.is_nested(kind) or pa.types.is_binary(kind) or pa.types.is_large_binary(kind))
    smallest, largest = _ends(column) if values and has_order else (None, None)
    return Bounds(nulls=nulls, values=values, smallest=smallest, largest=largest)


def _ends(column: Any) -> tuple[Any, Any]:
    """The bounds of a column that has values; None for both if they are unknown."""
    kind = column.type
    if pa.types.is_temporal(kind):
        column = column.cast(pa.int32() if pa.types.is_date32(kind) else pa.int64())
    smallest, largest = pc.min_max(column).as_py().values()
    if isinstance(largest, float):
        if pc.any(pc.is_nan(column)).as_py():
            return None, None
        return smallest or -0.0, largest or 0.0  # the two zeros are equal, and both must be between the bounds
    if isinstance(largest, str):
        largest = upper_bound(largest, _LONGEST_TEXT)
        smallest = None if largest is None else smallest[:_LONGEST_TEXT].partition(_LAST)[0]
    return smallest, largest


def upper_bound(text: str, length: int) -> str | None:
    """The text, or a short one that is larger than each text that begins alike; None if there is no such text."""
    kept = text[:length].partition(_LAST)[0]
    if kept == text:
        return text
    if not kept:
        return None
    last = kept[-1]
    return kept[:-1] + (_AFTER_SURROGATES if last == _BEFORE_SURROGATES else chr(ord(last) + 1))
