"""A new job gets the events that were stored before it."""

from watcher.feature import Feature

FEATURE = Feature(
    name="catchup",
    checks="watcher.features.catchup.check.check",
)
