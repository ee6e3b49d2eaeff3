"""Runs for each partition of an asset, when it is complete."""

from watcher.feature import Feature

FEATURE = Feature(name="partitions")
