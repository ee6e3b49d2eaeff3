"""A source as it is now, compared with the events as they are now."""

from watcher.feature import Feature

FEATURE = Feature(
    name="reconcile",
    needs=frozenset({"clean_source", "commands", "explain", "rest"}),
    routes="watcher.features.reconcile.routes.ROUTERS",
    commands={"reconcile": "watcher.features.reconcile.commands.top"},
    help_groups={"reconcile": "look"},
)
