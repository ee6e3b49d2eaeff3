"""What jobs write with: a run's part of a table, once."""

from watcher.feature import Feature

FEATURE = Feature(name="tables", needs=frozenset({"readers"}))
