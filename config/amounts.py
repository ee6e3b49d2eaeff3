"""What a person means by a duration or a number that was written in another form (pure). None and nothing: it cannot be told."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

_MILLISECONDS: Final = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
_UNITS: Final = {
    **dict.fromkeys(("ms", "msec", "msecs", "millis", "millisecond", "milliseconds"), "ms"),
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), "s"),
    **dict.fromkeys(("m", "min", "mins", "minute", "minutes"), "m"),
    **dict.fromkeys(("h", "hr", "hrs", "hour", "hours"), "h"),
    **dict.fromkeys(("d", "day", "days"), "d"),
    **dict.fromkeys(("w", "week", "weeks"), "w"),
}
_NUMBER: Final = r"[0-9]{1,9}(?:\.[0-9]{1,3})?"
_PART: Final = rf"({_NUMBER})\s*([a-z]+)"
_PARTS: Final = re.compile(rf"(?:{_PART}[\s,]*)+")
_CLOCK: Final = re.compile("([0-9]{1,3}):([0-5][0-9])(?::([0-5][0-9]))?")
_ISO: Final = re.compile(
    rf"p(?:({_NUMBER})w)?(?:({_NUMBER})d)?(?:t(?:({_NUMBER})h)?(?:({_NUMBER})m)?(?:({_NUMBER})s)?)?"
)
_WORDS: Final = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
_SIZE: Final = re.compile(rf"({_NUMBER})\s*([kmgt]?)(i?)(?:b|bytes)?", re.IGNORECASE)
_MOST: Final = 2**31 - 1
_LONGEST: Final = 36_500 * _MILLISECONDS["d"]


def durations_meant(written: Any) -> Sequence[str]:
    """Return the durations that may be meant by `24`, `24 h`, `1 day`, `1h30m`, `00:10` or `PT10M`, as the YAML writes them."""
    if isinstance(written, bool) or not isinstance(written, int | float | str):
        return ()
    text = str(written).strip().lower()
    if re.fullmatch(_NUMBER, text):
        number = float(text)
        if not number:
            return ("0s",)
        units = [unit for unit in "smhd" if number.is_integer() and number * _MILLISECONDS[unit] <= _LONGEST]
        return tuple(f"{int(number)}{unit}" for unit in units)
    milliseconds = _milliseconds(text)
    if milliseconds is None or not milliseconds.is_integer() or milliseconds > _LONGEST:
        return ()
    if not milliseconds:
        return ("0s",)
    unit = next(unit for unit in ("d", "h", "m", "s", "ms") if not milliseconds % _MILLISECONDS[unit])
    return (f"{int(milliseconds) // _MILLISECONDS[unit]}{unit}",)


def _milliseconds(text: str) -> float | None:
    if match := _CLOCK.fullmatch(text):
        hours, minutes, seconds = (int(part or 0) for part in match.groups())
        return float(((hours * 60 + minutes) * 60 + seconds) * 1_000)
    if (match := _ISO.fullmatch(text)) and any(match.groups()):
        return sum(
            float(part) * _MILLISECONDS[unit] for part, unit in zip(match.groups(), "wdhms", strict=True) if part
        )
    parts = re.findall(_PART, text)
    if not _PARTS.fullmatch(text) or not all(unit in _UNITS for _, unit in parts):
        return None
    return sum(float(number) * _MILLISECONDS[_UNITS[unit]] for number, unit in parts)


def number_meant(key: str, written: Any) -> str | None:
    """Return the whole number that is meant for a key: of MB for `…_mb`, of days for `…_days`, of bytes for sizes."""
    if not isinstance(written, str):
        return None
    text = written.strip()
    if text.lower() in _WORDS:
        return str(_WORDS.index(text.lower()))
    if re.fullmatch(r"[0-9]{1,3}([ ,'_][0-9]{3})+", text):
        return re.sub("[^0-9]", "", text)
    number = _in_unit_of(key, text)
    return str(int(number)) if number is not None and number.is_integer() and number <= _MOST else None


def _in_unit_of(key: str, text: str) -> float | None:
    if key.endswith("_days"):
        milliseconds = _milliseconds(text.lower())
        return None if milliseconds is None else milliseconds / _MILLISECONDS["d"]
    if (match := _SIZE.fullmatch(text)) and key.endswith("_mb"):
        return float(match[1]) * 1024.0 ** ("kmgt".index(match[2].lower() or "m") - 1)
    if match and (key.endswith(("_bytes", "_size")) or key == "bytes"):
        return float(match[1]) * float(1024 if match[3] else 1000) ** " kmgt".index(match[2].lower() or " ")
    return None
