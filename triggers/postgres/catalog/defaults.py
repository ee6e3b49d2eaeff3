"""Whether the default of a timestamp column is the time of the writing transaction, or a later one (pure)."""

from __future__ import annotations

import re
from typing import Final

_CLOCK: Final = (
    r"(?:(?:now|transaction_timestamp|statement_timestamp|clock_timestamp)\(\)|CURRENT_TIMESTAMP(?:\([0-6]\))?)"
)
_ROUNDED: Final = re.compile(r"\bdate_(?:trunc|bin)\(|\bCURRENT_DATE\b|::date\b")
_CONSTANT: Final = re.compile(r"\(*'(?:[^']|'')*'(?:::[a-z ]+(?:\([0-6]\))?[a-z ]*\)*)?")


def now_in(time_zone: str | None) -> str:
    """Return the expression that is the time of the writing transaction."""
    return "now()" if time_zone is None else f"(now() AT TIME ZONE '{time_zone}')"


def is_time_of_write(default: str, time_zone: str | None) -> bool:
    """Return whether the default is now() or its kin, perhaps with less precision; the margin of a poll covers its rounding.

    In a column without time zone it is the local time of `time_zone`: now() alone would be that of each writer's session.
    """
    right = _CLOCK
    if time_zone is not None:
        zone = f"(?i:'{re.escape(time_zone)}')::text"
        right = rf"(?:\({_CLOCK} AT TIME ZONE {zone}\)|timezone\({zone}, {_CLOCK}\))"
    return re.fullmatch(rf"{right}|\({right}\)::timestamp\([0-6]\) with(?:out)? time zone", default) is not None


def why_it_loses(default: str) -> str | None:
    """Return what makes rows with this default lost, as an end of a sentence; None where that is not certain."""
    if _CONSTANT.fullmatch(default):
        return "which is the same time for all rows"
    return "which may be much earlier than the transaction" if _ROUNDED.search(default) else None
