"""Stored events of a range of time that a job gets again, because a person asks for it."""

from watcher.feature import Feature

FEATURE = Feature(
    name="replay",
    needs=frozenset({"commands", "rest"}),
    tables="store.features.replay.tables.TABLES",
    applies="store.features.replay.applying.end_of_removed_jobs",
    step="watcher.features.replay.step.replay",
    routes="watcher.serving.api.routes.replays.ROUTERS",
    commands={"replay": "watcher.cli.replay.top"},
)
