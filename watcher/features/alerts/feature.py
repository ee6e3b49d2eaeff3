"""What the feature brings to the daemon."""

from __future__ import annotations

from typing import Final

from watcher.feature import Feature

FEATURE: Final = Feature(
    name="alerts",
    tables="store.features.alerts.tables.TABLES",
)
