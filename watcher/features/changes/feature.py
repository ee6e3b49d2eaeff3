"""Every change of a PostgreSQL table."""

from watcher.feature import Feature

FEATURE = Feature(
    name="changes",
    needs=frozenset({"rows"}),
    checks="watcher.features.changes.left_slots.check",
)
