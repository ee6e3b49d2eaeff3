"""A source as it is now, compared with the events as they are now."""

from watcher.feature import Feature

FEATURE = Feature(
    name="reconcile",
    needs=frozenset({"explain", "rest"}),
    routes="watcher.serving.api.routes.reconcile.ROUTERS",
    commands={"reconcile": "watcher.cli.reconcile.top"},
)
