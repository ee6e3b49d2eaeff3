"""Whether the default of a timestamp column is the time of the writing transaction, or a later one (pure)."""

from __future__ import annotations

import re
from typing import Final

_CLOCK: Final = (
    r"(?:(?:now|transaction_timestamp|statement_timestamp|clock_timestamp)\(\)|CURRENT_TIMESTAMP(?:\([0-6]\))?)"
)
_SHORTER: Final = r"\({0}\)::timestamp\([0-6]\) with(?:out)? time zone"
_RIGHT: Final = re.compile(f"{_CLOCK}|{_SHORTER.format(_CLOCK)}")
_ROUNDED: Final = re.compile(r"\bdate_(?:trunc|bin)\(|\bCURRENT_DATE\b|::date\b")
_CONSTANT: Final = re.compile(r"\(*'(?:[^']|'')*'(?:::[a-z ]+(?:\([0-6]\))?[a-z ]*\)*)?")


def is_time_of_write(default: str) -> bool:
    """Return whether the default is now() or its kin, perhaps with less precision; the margin of a poll covers its rounding."""
    return _RIGHT.fullmatch(default) is not None


def why_it_loses(default: str) -> str | None:
    """Return what makes rows with this default lost, as an end of a sentence; None where that is not certain."""
    if _CONSTANT.fullmatch(default):
        return "which is the same time for all rows"
    return "which may be much earlier than the transaction" if _ROUNDED.search(default) else None
