"""What the feature brings to the daemon."""

from __future__ import annotations

from typing import Final

from watcher.feature import Feature

FEATURE: Final = Feature(
    name="partitions",
    tables="store.features.partitions.tables.TABLES",
    applies="store.features.partitions.applying.forget_groups",
)
