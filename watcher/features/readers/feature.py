"""What jobs read with: files and rows exactly as they were detected."""

from watcher.feature import Feature

FEATURE = Feature(name="readers", checks="watcher.features.readers.package_check.check")
