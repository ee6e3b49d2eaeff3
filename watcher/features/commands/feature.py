"""The commands for people and tools."""

from watcher.feature import Feature

FEATURE = Feature(
    name="commands",
    commands={
        "run": "watcher.cli.run.top",
        **dict.fromkeys(("reload", "check"), "watcher.cli.configuration.top"),
        **dict.fromkeys(("pause", "resume", "logs", "poll", "rewind"), "watcher.cli.watchers.top"),
        "status": "watcher.cli.status.top",
        "watchers": "watcher.cli.watchers.watchers",
        "rejected": "watcher.cli.watchers.rejected",
        "assets": "watcher.cli.assets.assets",
        "jobs": "watcher.cli.jobs.jobs",
        "runs": "watcher.cli.runs.runs",
        "store": "watcher.cli.store.store",
        "db": "watcher.cli.administration.db",
        "token": "watcher.cli.tokens.token",
        "state-store": "watcher.cli.administration.state_store",
    },
)
