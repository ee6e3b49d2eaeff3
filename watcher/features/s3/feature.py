"""New files of S3."""

from watcher.feature import Feature

FEATURE = Feature(
    name="s3",
    needs=frozenset({"files"}),
    triggers={"s3.new_files": "triggers.s3.new_files.S3NewFiles"},
    connections={"s3": "triggers.s3.connection.S3Connection"},
)
