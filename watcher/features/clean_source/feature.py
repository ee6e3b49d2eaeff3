"""Files that every job has loaded are moved or deleted."""

from watcher.feature import Feature

FEATURE = Feature(name="clean_source", needs=frozenset({"files", "reconcile"}))
