"""REST for people and tools."""

from watcher.feature import Feature

FEATURE = Feature(
    name="rest",
    needs=frozenset({"outbox"}),
    routes="watcher.serving.api.routes.ROUTERS",
)
