"""The application `builtin:ingest`, which loads files and rows without code."""

from watcher.feature import Feature

FEATURE = Feature(
    name="ingest",
    needs=frozenset({"s3"}),
    checks="watcher.features.ingest.target_check.check",
)
