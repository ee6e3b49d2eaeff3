"""What is wrong with watchers, assets, jobs and runs, as one list."""

from watcher.feature import Feature

FEATURE = Feature(
    name="problems",
    problems="watcher.scheduling.problems.reading.problems",
)
