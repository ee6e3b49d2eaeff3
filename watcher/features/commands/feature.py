"""The commands for people and tools."""

from watcher.feature import Feature

FEATURE = Feature(
    name="commands",
    commands={
        **dict.fromkeys(("reload", "check"), "watcher.cli.configuration.top"),
        **dict.fromkeys(("pause", "resume", "logs", "poll", "rewind"), "watcher.cli.watchers.top"),
        "status": "watcher.cli.status.top",
        "watchers": "watcher.cli.watchers.watchers",
        "rejected": "watcher.cli.watchers.rejected",
        "assets": "watcher.cli.assets.assets",
        "jobs": "watcher.cli.jobs.jobs",
        "runs": "watcher.cli.runs.runs",
        "store": "watcher.cli.store.store",
        "token": "watcher.cli.tokens.token",
    },
)
