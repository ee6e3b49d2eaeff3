"""What the feature brings to the daemon."""

from __future__ import annotations

from typing import Final

from watcher.feature import Feature

FEATURE: Final = Feature(
    name="airflow",
    tables="store.features.airflow.tables.TABLES",
    keeps_events="store.features.airflow.forwarding.UNSENT",
    declares="watcher.features.airflow.declaration.declare",
    after_events="store.features.airflow.forwarding.after_events",
)
