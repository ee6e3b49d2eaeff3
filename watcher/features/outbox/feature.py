"""Messages to other systems, each sent until it has arrived."""

from watcher.feature import Feature

FEATURE = Feature(
    name="outbox",
    tables="store.features.outbox.tables.TABLES",
    problems="watcher.features.outbox.problems.problems",
    metrics="watcher.features.outbox.problems.metrics",
)
