"""Stored events of a range of time that a job gets again, because a person asks for it."""

from watcher.feature import Feature

FEATURE = Feature(
    name="replay",
    needs=frozenset({"commands", "rest"}),
    step="watcher.features.replay.step.replay",
    routes="watcher.serving.api.routes.replays.ROUTERS",
    commands={"replay": "watcher.cli.replay.top"},
)
