"""A record as people read it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_SHOWN_FIRST = ("timestamp", "level", "event", "exception", "rolled_back")


def as_text(record: Mapping[str, Any]) -> str:
    """One line, or several when it carries a traceback; a line that was plain text stays what it was."""
    rest = (f"{name}={value}" for name, value in record.items() if name not in _SHOWN_FIRST)
    rolled_back = "(rolled back)" if record.get("rolled_back") else ""
    head = (record.get("timestamp"), record.get("level"), record["event"], *rest, rolled_back)
    line = " ".join(str(part) for part in head if part)
    return f"{line}\n{record['exception']}" if record.get("exception") else line
