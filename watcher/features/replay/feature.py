"""What the feature brings to the daemon."""

from __future__ import annotations

from typing import Final

from watcher.feature import Feature

FEATURE: Final = Feature(
    name="replay",
    tables="store.features.replay.tables.TABLES",
    applies="store.features.replay.applying.end_of_removed_jobs",
)
