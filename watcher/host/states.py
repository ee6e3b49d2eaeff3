"""The one table of how a state looks: its color, its mark and its word, for commands, pages, the graph and the timeline."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

Color: TypeAlias = Literal["good", "busy", "calm", "warn", "bad"]
"""What a color means: it went well; it goes on; it waits; look at it some time; look at it now."""
Subject: TypeAlias = Literal["watcher", "other"]
"""Whose state it is. A watcher is well while it runs and is not while it waits; a run, a try or an item has not come to its end."""


@dataclass(frozen=True, kw_only=True)
class StateLook:
    """How people see a state. The mark is one column wide and says without color what the color says."""

    color: Color
    mark: str
    word: str

    def __str__(self) -> str:
        return f"{self.mark} {self.word}"


_MARKS: Final[Mapping[str, tuple[Color, str]]] = {
    **dict.fromkeys(
        ("success", "loaded", "done", "complete", "redelivered", "resolved", "healthy", "ok"), ("good", "✓")
    ),
    **dict.fromkeys(("cleaned", "moved"), ("good", "✓")),
    **dict.fromkeys(("running", "starting", "restarting"), ("busy", "▶")),
    **dict.fromkeys(("queued", "scheduled", "deferred", "awaiting_input", "up_for_reschedule"), ("calm", "…")),
    **dict.fromkeys(("waiting", "incomplete", "redelivery_incomplete", "reported"), ("calm", "…")),
    "active": ("calm", "●"),
    "info": ("calm", "i"),
    **dict.fromkeys(("skipped", "superseded", "not_taken", "removed"), ("calm", "-")),
    **dict.fromkeys(("before_start", "not_matched", "hidden", "outside", "replaced", "past_retention"), ("calm", "-")),
    **dict.fromkeys(("unknown", "none"), ("calm", "?")),
    "paused": ("warn", "‖"),
    "unstable": ("warn", "~"),
    "up_for_retry": ("warn", "↻"),
    "warning": ("warn", "!"),
    **dict.fromkeys(("stopped", "cancelled", "dropped", "missing", "never_come"), ("warn", "⊘")),
    **dict.fromkeys(
        ("failed", "failing", "blocked", "rejected", "upstream_failed", "unhealthy", "error"), ("bad", "✗")
    ),
    **dict.fromkeys(("late", "unassigned", "not_reported", "reported_twice", "lost", "firing"), ("bad", "✗")),
}
_OF_WATCHERS: Final[Mapping[str, tuple[Color, str]]] = {"running": ("good", "●"), "waiting": ("warn", "…")}
_OTHER: Final[tuple[Color, str]] = ("calm", "·")


def look_of(state: str, of: Subject = "other") -> StateLook:
    """Return how a state looks. One that the table does not have looks calm, and keeps its name as its word."""
    name = state.replace(" ", "_")
    color, mark = (_OF_WATCHERS.get(name) if of == "watcher" else None) or _MARKS.get(name, _OTHER)
    return StateLook(color=color, mark=mark, word=state.replace("_", " "))


def known_states() -> frozenset[str]:
    """Return the states that the table has a look for."""
    return frozenset(_MARKS)
