"""A configuration for a source of your own."""

from watcher.feature import Feature

FEATURE = Feature(
    name="init",
    needs=frozenset({"commands"}),
    commands={"init": "watcher.features.init.commands.top"},
    help_groups={"init": "start"},
)
