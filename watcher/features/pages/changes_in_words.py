"""What changed in the configuration, from the detail of its entry in the audit (pure)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from watcher.host.page_paths import path

SHOWN: Final = 20
"""The names of a line that are shown. The rest is counted."""
_KINDS: Final = {
    "watchers": "watcher",
    "jobs": "job",
    "assets": "asset",
    "aliases": "alias",
    "connections": "connection",
}
_PAGES: Final = {"watchers", "jobs"}
"""What has a page by its name."""


@dataclass(frozen=True, kw_only=True)
class NamesThatChanged:
    """A line such as `added jobs: nightly`. A name comes with the address of its page, if it has one now."""

    words: str
    names: Sequence[tuple[str, str | None]]
    more: int


def configuration_in_words(detail: str) -> Sequence[NamesThatChanged | str] | None:
    """Return the lines of a change of the configuration: names, and what became of queued events. None: it cannot be read."""
    try:
        value = json.loads(detail)
    except ValueError:
        return None
    if not isinstance(value, dict):
        return None
    lines: list[NamesThatChanged | str] = []
    for word in ("added", "changed", "removed"):
        for section, kind in _KINDS.items():
            names = _names(value, section, word)
            if names:
                lines.append(_line(word, section, kind, names))
    if not lines:
        lines.append(
            "applied at a start, with what had changed since the process before"
            if "before" in value
            else "nothing by name"
        )
    if dropped := value.get("dequeued"):
        lines.append(
            f"{dropped:,} queued event{'s' * (dropped != 1)} dropped with {'its job' if dropped == 1 else 'their jobs'}"
        )
    if kept := value.get("kept"):
        lines.append(
            f"events that the schedule no longer waits for: {', '.join(f'{count:,} of {job}' for job, count in kept.items())}"
        )
    return lines


def _names(value: Mapping[str, Any], section: str, word: str) -> Sequence[str]:
    difference = value.get(section)
    names = difference.get(word) if isinstance(difference, Mapping) else None
    return [str(name) for name in names] if isinstance(names, list) else []


def _line(word: str, section: str, kind: str, names: Sequence[str]) -> NamesThatChanged:
    has_page = section in _PAGES and word != "removed"
    return NamesThatChanged(
        words=f"{kind} {word}",
        names=[(name, path(section, name) if has_page else None) for name in names[:SHOWN]],
        more=len(names) - len(names[:SHOWN]),
    )
