"""A new job gets the events that were stored before it."""

from watcher.feature import Feature

FEATURE = Feature(
    name="catchup",
    tables="store.features.catchup.tables.TABLES",
    keeps_events="store.catalog.catchups.LACKING",
    applies="store.catalog.catchups.begin",
    step="watcher.scheduling.catching_up.catch_up",
    checks="watcher.features.catchup.check.check",
)
