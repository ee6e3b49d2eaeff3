"""What is wrong now, as one list."""

from watcher.feature import Feature

FEATURE = Feature(name="problems")
