"""What the API refuses, in words for people with a browser: a link instead of a command, and no words of a validator (pure)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

_LISTS: Final = {"assets": "assets", "jobs": "jobs", "watchers": "watchers", "runs": "runs", "status": ""}
_LIST_COMMAND: Final = re.compile(r"; `watcher (assets|watchers|jobs|runs|status)[^`]*`[^;]*$")
_FAULTS: Final = {
    "missing": "is missing",
    "int_parsing": "is not a whole number",
    "int_from_float": "is not a whole number",
    "bool_parsing": "is neither true nor false",
    "datetime_parsing": "is not a time; write it like 2026-01-31T06:00:00Z",
    "datetime_from_date_parsing": "is not a time; write it like 2026-01-31T06:00:00Z",
}


@dataclass(frozen=True, kw_only=True)
class ShownRefusal:
    """A sentence, and the list that a command of the API's sentence would have shown."""

    sentence: str
    list_page: str | None = None
    """Its address below the root."""
    list_name: str = ""


def refusal(detail: str | Sequence[Mapping[str, Any]]) -> ShownRefusal:
    """Return the words for a `detail` of an answer: a sentence, or the faults of a request."""
    sentence = detail if isinstance(detail, str) else "; ".join(map(fault_in_words, detail))
    if (command := _LIST_COMMAND.search(sentence)) is None:
        return ShownRefusal(sentence=sentence)
    name = command[1]
    shown = "The overview" if name == "status" else f"All {name}"
    return ShownRefusal(sentence=sentence[: command.start()], list_page=_LISTS[name], list_name=shown)


def fault_in_words(fault: Mapping[str, Any]) -> str:
    """Return a fault of a request: the field, and what is wrong with what was given."""
    name = " ".join(str(part) for part in fault["loc"] if part not in {"query", "path", "body"}).replace("_", " ")
    words = _FAULTS.get(fault["type"])
    if words is None:
        words = (
            str(fault["msg"])
            .removeprefix("Value error, ")
            .replace("Input should", "has to")
            .replace("String should", "has to")
        )
    return f"{name or 'the request'} {words}"
