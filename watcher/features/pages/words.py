"""Formats values for pages: times, numbers, JSON, and text with invisible characters."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Protocol

from store.features.pages.run_causes import RunCauses
from watcher.host.event_words import day_and_time, event_in_words, why_in_words
from watcher.host.page_paths import part
from watcher.host.states import look_of

SHORT: Final = 400
"""Characters of a value that a list shows."""
LONG_NAME: Final = 28
"""Characters of a name that stand in a row, whatever is beside them. Longer ones can be read in the row's menu."""
LONG_TEXT: Final = 200
"""Characters of a sentence that stand in a row without opening it."""
_LINE_OF_WORDS: Final = 160
_END_OF_FILE: Final = 50
"""Characters of a file's name in a list: its end tells files apart."""
_INVISIBLE: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]"
    "|[\U000e0000-\U000e007f\ud800-\udfff]"
)
"""Control characters, marks that change the direction of text (https://trojansource.codes), and characters without width."""


def visible(text: object) -> str:
    """Return the text with an escape for each character that is invisible or reorders others."""
    return _INVISIBLE.sub(lambda match: f"\\u{ord(match[0]):04x}", str(text))


def pretty(text: str, indent: int | None = 2) -> str:
    """Return a JSON text on several lines for people, or unchanged if Python cannot parse it."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):  # a number may have more digits than Python reads
        return visible(text)
    return visible(json.dumps(value, ensure_ascii=False, indent=indent))


def compact(text: str) -> str:
    """Return a JSON text on one line, shortened for a list."""
    return shortened(pretty(text, indent=None))


def json_text(value: Any, indent: int | None = None) -> str:
    """Return a parsed value as JSON, on one line or indented."""
    return visible(json.dumps(value, ensure_ascii=False, indent=indent, default=str))


def as_json(value: Any) -> str:
    """Return a parsed value as JSON on one line, shortened for a list."""
    return shortened(json_text(value))


def shortened(text: str, length: int = SHORT) -> str:
    return text if len(text) <= length else f"{text[: length - 1]}…"


def in_words(extra: Mapping[str, Any]) -> str:
    """Return what an event brings, in a line of words."""
    return shortened(visible(event_in_words(extra, _END_OF_FILE)), _LINE_OF_WORDS)


class MadeRun(Protocol):
    """A run, as far as why it was made is concerned."""

    @property
    def dag_id(self) -> str: ...

    @property
    def run_id(self) -> str: ...

    @property
    def run_type(self) -> str: ...

    @property
    def partition_key(self) -> str | None: ...


def why(run: MadeRun, causes: RunCauses) -> str:
    """Return why the run was made: `3 events of orders`."""
    return why_in_words(run.run_type, run.partition_key, causes.get((run.dag_id, run.run_id), {}))


def moment(at: datetime) -> str:
    """Return the time in UTC, to the second."""
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"


def age(at: datetime, now: datetime) -> str:
    """Return how long ago the time was, or in how long it will be."""
    seconds = (now - at).total_seconds()
    return f"in {duration(-seconds)}" if seconds <= -1 else f"{duration(seconds)} ago" if seconds >= 1 else "just now"


_OF_A_FIELD: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d)?")


def in_utc(text: str) -> str:
    """Return a time of a browser's field, which has no zone and is in UTC, with its zone. Other texts stay as they are."""
    return f"{text}Z" if _OF_A_FIELD.fullmatch(text) else text


def utc_field(text: str) -> str:
    """Return a time of an address as a browser's field for times takes it, in UTC; '' for what is no time."""
    try:
        at = datetime.fromisoformat(text)
        at = at if at.tzinfo is None else at.astimezone(UTC)
    except (ValueError, OverflowError):
        return ""
    return at.replace(tzinfo=None, microsecond=0).isoformat()


_UNITS: Final = (("d", 86_400), ("h", 3600), ("min", 60), ("s", 1))


def duration(seconds: float | timedelta) -> str:
    """Return a duration in its largest unit, and in the next smaller one while that matters: `3 h 20 min`."""
    left = round(seconds.total_seconds() if isinstance(seconds, timedelta) else seconds)
    parts = []
    for unit, length in _UNITS:
        count, left = divmod(left, length)
        parts.append((count, unit))
    first = next((place for place, (count, _) in enumerate(parts) if count), len(parts) - 1)
    shown = parts[first : first + (1 if parts[first][0] >= _PLENTY else 2)]
    return " ".join(f"{count} {unit}" for count, unit in shown if count) or "0 s"


_PLENTY: Final = 10
"""The count of a unit from which the next smaller one is omitted."""


def number(count: int) -> str:
    return f"{count:,}"


def cost(text: str | None) -> str:
    """Return the known costs of a try, such as `4.1 s of CPU, 410 MB, 1,200 rows read`."""
    numbers = {} if text is None else json.loads(text)
    shown = [form.format(numbers[name]) for name, form in _COSTS.items() if numbers.get(name)]
    return ", ".join(shown)


_COSTS: Final = {
    "cpu_seconds": "{:,.1f} s of CPU",
    "peak_memory_mb": "{:,} MB",
    "rows_read": "{:,} rows read",
    "bytes_read": "{:,} bytes read",
    "rows_written": "{:,} rows written",
    "bytes_written": "{:,} bytes written",
}


FILTERS: Final[Mapping[str, Callable[..., Any]]] = {
    "visible": visible,
    "pretty": pretty,
    "compact": compact,
    "json_text": json_text,
    "as_json": as_json,
    "shortened": shortened,
    "moment": moment,
    "age": age,
    "duration": duration,
    "number": number,
    "cost": cost,
    "in_words": in_words,
    "why": why,
    "day_and_time": day_and_time,
    "look": look_of,
    "utc_field": utc_field,
    "part": part,
}
