"""`watcher demo`: servers, a shop and jobs on this machine."""

from watcher.feature import Feature

FEATURE = Feature(
    name="demo",
    needs=frozenset({"pages"}),
    pages="watcher.features.demo.page.add_page",
    commands={"demo": "watcher.features.demo.commands.top"},
    help_groups={"demo": "start"},
)
