"""Spark's patterns of dates and times, as far as they say the same in every language and place."""

from __future__ import annotations

import re
from functools import cache
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from asset_job.errors import AssetJobError

_LETTERS: Final = {
    "yyyy": ("year", r"\d{4}"),
    "uuuu": ("year", r"\d{4}"),
    "MM": ("month", r"\d\d"),
    "M": ("month", r"\d\d?"),
    "dd": ("day", r"\d\d"),
    "d": ("day", r"\d\d?"),
    "HH": ("hour", r"\d\d"),
    "H": ("hour", r"\d\d?"),
    "hh": ("half", r"\d\d"),
    "h": ("half", r"\d\d?"),
    "a": ("noon", r"(?i:am|pm)"),
    "mm": ("minute", r"\d\d"),
    "m": ("minute", r"\d\d?"),
    "ss": ("second", r"\d\d"),
    "s": ("second", r"\d\d?"),
    "X": ("offset", r"Z|[+-]\d\d(?:\d\d)?"),
    "XX": ("offset", r"Z|[+-]\d{4}"),
    "XXX": ("offset", r"Z|[+-]\d\d:\d\d"),
    "Z": ("offset", r"[+-]\d{4}"),
    "xxx": ("offset", r"[+-]\d\d:\d\d"),
}
_TOKENS: Final = re.compile(r"'((?:[^']|'')*)'|([A-Za-z])\2*|([\[\]])|(.)", re.DOTALL)
_LONGEST_FRACTION: Final = 9


@cache
def expression(pattern: str) -> str:
    """The regular expression of texts in a pattern, with named groups. Raises `AssetJobError` for what it cannot say."""
    parts, names = list[str](), list[str]()
    for match in _TOKENS.finditer(pattern):
        literal, letter, bracket, other = match.groups()
        if letter is not None:
            name, form = _field(match[0])
            if not name or name in names:
                raise AssetJobError(
                    f"the pattern {pattern!r} has {match[0]!r}, which is not understood: use yyyy, MM, dd, HH, mm, ss, S, a, "
                    "h, XXX, each once"
                )
            names.append(name)
            parts.append(f"(?P<{name}>{form})")
        elif bracket is not None:
            parts.append("(?:" if bracket == "[" else ")?")
        else:
            parts.append(re.escape(other or (literal or "'").replace("''", "'")))
    missing = {"year", "month", "day"} - set(names)
    if missing or ("half" in names) != ("noon" in names) or pattern.count("[") != pattern.count("]"):
        raise AssetJobError(
            f"the pattern {pattern!r} does not tell a day: name the year (yyyy), the month (MM) and the day (dd), and `a` with `h`"
        )
    return f"^{''.join(parts)}$"


def _field(letters: str) -> tuple[str, str]:
    """The name and the form of what a run of one letter stands for; empty: that is not known."""
    if letters.startswith("S") and len(letters) <= _LONGEST_FRACTION:
        return "fraction", rf"\d{{{len(letters)}}}"
    return _LETTERS.get(letters, ("", ""))


def in_iso(texts: pa.Array, pattern: str | None) -> pa.Array:
    """Texts in a pattern, written as `YYYY-MM-DDThh:mm:ss.ffffff±hh:mm` as far as it says; others null. None: as they are."""
    if pattern is None:
        return texts
    groups = pc.extract_regex(texts, expression(pattern))
    names = {field.name for field in groups.type}
    parts = {name: pc.if_else(pc.is_valid(groups), pc.struct_field(groups, name), None) for name in names}
    day = pc.binary_join_element_wise(parts["year"], *(_two(parts[name]) for name in ("month", "day")), "-")
    zero = pc.if_else(pc.is_valid(groups), "00", None)
    clock = [_two(parts[name]) if name in parts else zero for name in ("hour", "minute", "second")]
    if "half" in parts:
        clock[0] = _hour(parts)
    whole = pc.binary_join_element_wise(day, pc.binary_join_element_wise(*clock, ":"), "T")
    if "fraction" in parts:
        whole = pc.binary_join_element_wise(
            whole, pc.if_else(pc.equal(parts["fraction"], ""), "0", parts["fraction"]), "."
        )
    return pc.binary_join_element_wise(whole, parts["offset"], "") if "offset" in parts else whole


def _two(digits: pa.Array) -> pa.Array:
    return pc.utf8_lpad(digits, 2, "0")


def _hour(parts: dict[str, pa.Array]) -> pa.Array:
    """The hour of the day, by the hour of its half; no hour from 13 on, and no hour 0, is one."""
    half = parts["half"].cast(pa.int8())
    right = pc.and_(pc.greater_equal(half, 1), pc.less_equal(half, 12))
    later = pc.equal(pc.ascii_lower(parts["noon"]), "pm")
    hour = pc.add(pc.if_else(pc.equal(half, 12), 0, half), pc.if_else(later, 12, 0))
    return _two(pc.if_else(right, hour.cast(pa.string()), None))
