"""The value that a text is under a type, by the forms of docs/ingest.md, with exact numbers. Knows no reader of ours."""

from __future__ import annotations

import re
from datetime import datetime, timezone
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from typing import Final, TypeAlias
from zoneinfo import ZoneInfo

from tests.corpus.canonical import Canonical, day_text, days_of, length_of_month, moment_text, nearest_float


class Outcome(Enum):
    BAD = "bad"


BAD: Final = Outcome.BAD
Allowed: TypeAlias = tuple[Canonical | Outcome, ...]
"""What may be read. There are two where the promise leaves a choice between the value and a bad record."""

_WHOLE = {"byte": 8, "short": 16, "int": 32, "long": 64}
_NUMBER = re.compile(r"([+-]?)(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_MOMENT = re.compile(
    r"(?P<year>\d{4})-(?P<month>\d\d)-(?P<day>\d\d)[ T](?P<hour>\d\d):(?P<minute>\d\d)(?P<second>:\d\d(?P<rest>\.\d+)?)?"
    r"(?P<zone>Z|[+-]\d\d(?::?\d\d)?)?",
    re.ASCII,
)


def allowed(text: str, kind: str, zone: str = "UTC") -> Allowed:
    """What may be read from a text that is there, under a type of Spark."""
    if kind == "string":
        return (text,)
    bare = text.strip(" ")
    choice = () if bare == text.strip() else (BAD,)  # other white space than blanks
    return tuple(dict.fromkeys((*choice, *_allowed(text.strip(), kind, zone))))


def _allowed(text: str, kind: str, zone: str) -> Allowed:
    if kind in _WHOLE:
        return _whole(text, _WHOLE[kind])
    if kind in {"float", "double"}:
        return _floating(text, single=kind == "float")
    if kind.startswith("decimal"):
        precision, scale = map(int, re.findall(r"\d+", kind))
        return _decimal(text, precision, scale)
    if kind == "boolean":
        return (BOOLEANS.get(text.lower(), BAD),)
    if kind == "date":
        return _date(text)
    return _moment(text, zone if kind == "timestamp" else None)


BOOLEANS: Final = {"true": "true", "t": "true", "false": "false", "f": "false"}


def _whole(text: str, bits: int) -> Allowed:
    if not re.fullmatch(r"[+-]?\d+", text, re.ASCII):
        return (BAD,)
    number = int(text)
    return (str(number),) if -(2 ** (bits - 1)) <= number < 2 ** (bits - 1) else (BAD,)


def exact(text: str) -> Fraction | None:
    """The number that a text with point and exponent is; None: it is none, or too far from 1 to be of any type."""
    match = _NUMBER.fullmatch(text)
    if not match or abs(int(match[3][1:] if match[3] else 0)) > 5000:
        return None
    return Fraction(Decimal(text))


def _floating(text: str, *, single: bool) -> Allowed:
    if re.fullmatch(r"NaN|[+-]?Infinity", text):
        return (text.removeprefix("+"),)
    if text.lower() in {"nan", "-nan", "+nan", "infinity", "+infinity", "-infinity"}:
        return (BAD, "NaN" if "nan" in text.lower() else text.lower().removeprefix("+").replace("infinity", "Infinity"))
    number = exact(text)
    if number is None:
        return (BAD,)
    value = nearest_float(number, single=single)
    if value is None:
        return (BAD,)
    shortest = repr(-value if number == 0 and text.startswith("-") else value)
    if value == 0 and number != 0:  # below the smallest
        return (BAD, "0.0", "-0.0")
    return (shortest,)


def _decimal(text: str, precision: int, scale: int) -> Allowed:
    number = exact(text)
    if number is None:
        return (BAD,)
    scaled = number * 10**scale
    if scaled.denominator != 1 or abs(scaled) >= 10**precision:
        return (BAD,)
    return (decimal_of(int(scaled), scale),)


def decimal_of(scaled: int, scale: int) -> str:
    digits = f"{abs(scaled):0{scale + 1}}"
    sign = "-" if scaled < 0 else ""
    return sign + (f"{digits[:-scale]}.{digits[-scale:]}" if scale else digits)


def _date(text: str) -> Allowed:
    match = re.fullmatch(r"(\d{4})-(\d\d)-(\d\d)", text, re.ASCII)
    if match:
        return _of_calendar(text, *map(int, match.groups()))
    moment = _MOMENT.fullmatch(text)
    if not moment:
        return (BAD,)
    day = _of_calendar(text[:10], *(int(moment[part]) for part in ("year", "month", "day")))
    if re.search(r"[1-9]", moment["hour"] + moment["minute"] + (moment["second"] or "")):
        return (BAD,)
    is_sure = moment["zone"] is None and moment["second"] is not None
    return day if is_sure else tuple({BAD: 0, **dict.fromkeys(day)})


def _of_calendar(text: str, year: int, month: int, day: int) -> Allowed:
    if not 1 <= month <= 12 or not 1 <= day <= length_of_month(year, month):
        return (BAD,)
    return (BAD, text) if year == 0 else (text,)


def _moment(text: str, zone: str | None) -> Allowed:
    """A moment where `zone` is one, else a local time."""
    match = _MOMENT.fullmatch(text)
    if not match:
        return (BAD,)
    year, month, day, hour, minute = (int(match[part]) for part in ("year", "month", "day", "hour", "minute"))
    second = Fraction(match["second"][1:]) if match["second"] else Fraction(0)
    micros = second * 1_000_000
    offset = _offset(match["zone"])
    if (
        BAD in _of_calendar(text, year or 4, month, day)
        or hour > 23
        or minute > 59
        or second >= 60
        or micros.denominator != 1
        or offset is None
        or (match["zone"] and zone is None)
    ):
        return (BAD,)
    if match["zone"] is None and zone not in {None, "UTC"}:
        offset = _offset_of_zone(zone, datetime(year or 4, month, day, hour, minute, int(second)))
    whole = days_of(year, month, day) * 86_400 + hour * 3600 + minute * 60 - offset
    value = moment_text(int(micros) + whole * 1_000_000, utc=zone is not None)
    sure = year != 0 and match["second"] is not None and abs(offset) <= 18 * 3600
    return (value,) if sure else (BAD, value)


def _offset(text: str | None) -> int | None:
    """Seconds east of Greenwich; None: there is no such offset."""
    if text in {None, "Z"}:
        return 0
    digits = text[1:].replace(":", "")
    hours, minutes = int(digits[:2]), int(digits[2:] or 0)
    if minutes > 59 or hours > 23:
        return None
    return (1 if text[0] == "+" else -1) * (hours * 3600 + minutes * 60)


def _offset_of_zone(zone: str, local: datetime) -> int:
    """The zone's offset in seconds; in the hour that comes twice it is the earlier moment, as in Java."""
    return int(local.replace(tzinfo=ZoneInfo(zone)).utcoffset().total_seconds())
