"""The JSON Schema of the configuration, and its tables in the documentation."""

from watcher.feature import Feature

FEATURE = Feature(
    name="publishing",
    commands={"schema": "watcher.features.publishing.commands.top"},
    help_groups={"schema": "start"},
)
