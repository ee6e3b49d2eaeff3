"""What the feature brings to the daemon."""

from __future__ import annotations

from typing import Final

from watcher.feature import Feature

FEATURE: Final = Feature(
    name="clean_source",
    tables="store.features.clean_source.tables.TABLES",
    declares="watcher.features.clean_source.declaration.declare",
    after_events="store.features.clean_source.recording.after_events",
)
