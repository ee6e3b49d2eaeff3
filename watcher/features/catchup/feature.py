"""A new job gets the events that were stored before it."""

from watcher.feature import Feature

FEATURE = Feature(
    name="catchup",
    tables="store.features.catchup.tables.TABLES",
    keeps_events="store.features.catchup.catchups.LACKING",
    applies="store.features.catchup.catchups.begin",
    step="watcher.features.catchup.step.catch_up",
    checks="watcher.features.catchup.check.check",
)
