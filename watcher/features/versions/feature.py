"""The newest of several versions of a file counts."""

from watcher.feature import Feature

FEATURE = Feature(
    name="versions",
    declares="watcher.features.versions.declaration.declare",
    changed_items="store.features.versions.superseded_items.SUPERSEDED",
    routes="watcher.features.versions.routes.ROUTERS",
)
