"""What all watchers of files share."""

from watcher.feature import Feature

FEATURE = Feature(
    name="files",
)
