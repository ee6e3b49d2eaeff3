"""What became of one file or row."""

from watcher.feature import Feature

FEATURE = Feature(
    name="explain",
    needs=frozenset({"clean_source", "commands", "rest"}),
    chores="store.features.explain.chores.CHORES",
    routes="watcher.features.explain.routes.ROUTERS",
    commands={"explain": "watcher.features.explain.commands.top"},
    help_groups={"explain": "look"},
)
