"""Triggers in processes of their own."""

from watcher.feature import Feature

FEATURE = Feature(name="isolation")
