"""What became of one file or row."""

from watcher.feature import Feature

FEATURE = Feature(
    name="explain",
    needs=frozenset({"commands", "rest"}),
    chores="store.features.explain.chores.CHORES",
    routes="watcher.serving.api.routes.explain.ROUTERS",
    commands={"explain": "watcher.cli.explain.top"},
)
