"""A configuration for a source of your own."""

from watcher.feature import Feature

FEATURE = Feature(
    name="init",
    commands={"init": "watcher.cli.init.top"},
)
