"""A new job gets the events that were stored before it."""

from watcher.feature import Feature

FEATURE = Feature(
    name="catchup",
    step="watcher.scheduling.catching_up.catch_up",
    checks="watcher.features.catchup.check.check",
)
