"""Triggers in processes of their own."""

from watcher.feature import Feature

FEATURE = Feature(name="isolation", isolation="watcher.features.isolation.opening.open_processes")
