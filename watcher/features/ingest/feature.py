"""The application `builtin:ingest`, which loads files and rows without code."""

from watcher.feature import Feature

FEATURE = Feature(
    name="ingest",
    needs=frozenset({"readers", "s3", "tables"}),
    checks="watcher.features.ingest.target_check.check",
)
