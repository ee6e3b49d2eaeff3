"""The type that texts show: one that reads every one of them without loss."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Final, Self

import pyarrow as pa
import pyarrow.compute as pc

from asset_job.sources.options import ReadOptions
from asset_job.sources.texts.forms import DATE, converted

_NUMBER: Final = r"^-?(?P<whole>0|[1-9]\d*)(?:\.(?P<part>\d+))?(?P<exponent>[eE][+-]?\d{1,2})?$"
_BOOLEAN: Final = r"^(?i:true|false)$"
_MOST_OF_DOUBLE: Final = 15
"""Significant digits that each double keeps."""
_MOST_OF_DECIMAL: Final = 38


@dataclass(frozen=True, kw_only=True)
class ShownType:
    """What texts show of their type. Two are joined to the most of each, in any order. It travels as JSON."""

    boolean: bool = False
    date: bool = False
    timestamp: bool = False
    text: bool = False
    """Whether a text is nothing else."""
    whole: int = 0
    """The most digits before the point of a number; 0: there is no number."""
    part: int = 0
    """The most digits behind it."""
    digits: int = 0
    """The most digits of one number."""
    floating: bool = False
    """Whether a number has a point or an exponent."""
    exponent: bool = False
    beyond_long: bool = False
    """Whether a whole number needs more than 64 bits."""

    @classmethod
    def of(cls, texts: pa.Array, options: ReadOptions) -> Self:
        """What an array of texts shows."""
        known = pc.ascii_trim(texts.drop_null(), " ")
        numbers = pc.match_substring_regex(known, _NUMBER)
        left = known.filter(pc.invert(numbers))
        booleans = pc.match_substring_regex(left, _BOOLEAN)
        left = left.filter(pc.invert(booleans))
        dates = converted(left, pa.date32(), options)[1]
        if options.date_format is None:  # a date at midnight is one, but shows a time
            dates = pc.and_(dates, pc.match_substring_regex(left, f"^{DATE}$"))
        left = left.filter(pc.invert(dates))
        moments = converted(left, pa.timestamp("us", "UTC"), options)[1]
        others = cls(boolean=_any(booleans), date=_any(dates), timestamp=_any(moments), text=_any(pc.invert(moments)))
        return cls.of_numbers(known.filter(numbers)).joined(others)

    @classmethod
    def of_numbers(cls, numbers: pa.Array) -> Self:
        """What numbers in the form of JSON show."""
        if not len(numbers):
            return cls()
        parts = pc.extract_regex(numbers, _NUMBER)
        if parts.null_count:
            return cls(text=True)
        whole, part = (pc.utf8_length(pc.struct_field(parts, name)) for name in ("whole", "part"))
        is_whole = pc.and_(pc.equal(part, 0), pc.equal(pc.struct_field(parts, "exponent"), ""))
        in_64_bits = converted(numbers.filter(is_whole), pa.int64(), ReadOptions())[1]
        return cls(
            whole=pc.max(whole).as_py(),
            part=pc.max(part).as_py(),
            digits=pc.max(pc.add(whole, part)).as_py(),
            floating=_any(pc.invert(is_whole)),
            exponent=_any(pc.not_equal(pc.struct_field(parts, "exponent"), "")),
            beyond_long=_any(pc.invert(in_64_bits)),
        )

    def joined(self, other: Self) -> Self:
        """What both show."""
        others = asdict(other)
        return replace(self, **{name: max(value, others[name]) for name, value in asdict(self).items()})

    @property
    def ddl(self) -> str:
        """Spark's name of the type. Texts that show different types, or none, are strings."""
        shown = [self.boolean, self.date, self.timestamp, self.whole > 0]
        if self.text or sum(shown) != 1:
            return "string"
        if self.whole:
            return self._number
        return "boolean" if self.boolean else "date" if self.date else "timestamp"

    @property
    def _number(self) -> str:
        if not self.floating and not self.beyond_long:
            return "bigint"
        if self.floating and self.digits <= _MOST_OF_DOUBLE:
            return "double"
        precision = self.whole + self.part
        return "string" if self.exponent or precision > _MOST_OF_DECIMAL else f"decimal({precision},{self.part})"


def _any(mask: pa.Array) -> bool:
    return bool(pc.any(mask).as_py())
