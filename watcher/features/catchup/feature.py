"""What the feature brings to the daemon."""

from __future__ import annotations

from typing import Final

from watcher.feature import Feature

FEATURE: Final = Feature(
    name="catchup",
    keeps_events="store.catalog.catchups.LACKING",
    applies="store.catalog.catchups.begin",
)
