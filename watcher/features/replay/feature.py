"""Stored events of a range of time that a job gets again, because a person asks for it."""

from watcher.feature import Feature

FEATURE = Feature(
    name="replay",
    needs=frozenset({"commands", "rest"}),
    tables="store.features.replay.tables.TABLES",
    applies="store.features.replay.applying.end_of_removed_jobs",
    step="watcher.features.replay.step.replay",
    routes="watcher.features.replay.routes.ROUTERS",
    commands={"replay": "watcher.features.replay.commands.top"},
    help_groups={"replay": "act"},
)
