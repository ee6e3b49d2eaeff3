"""Stored events that a job gets again."""

from watcher.feature import Feature

FEATURE = Feature(
    name="replay",
    needs=frozenset({"rest"}),
    routes="watcher.serving.api.routes.replays.ROUTERS",
    commands={"replay": "watcher.cli.replay.top"},
)
