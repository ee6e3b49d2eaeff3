"""`watcher demo`: servers, a shop and jobs on this machine."""

from watcher.feature import Feature

FEATURE = Feature(
    name="demo",
    commands={"demo": "watcher.features.demo.commands.top"},
    help_groups={"demo": "start"},
)
