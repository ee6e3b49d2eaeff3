"""The commands for people and tools."""

from watcher.feature import Feature

FEATURE = Feature(
    name="commands",
    commands={
        **dict.fromkeys(("reload", "check"), "watcher.features.commands.configuration.top"),
        **dict.fromkeys(("pause", "resume", "logs", "poll", "rewind"), "watcher.features.commands.watchers.top"),
        "status": "watcher.features.commands.status.top",
        "watchers": "watcher.features.commands.watchers.watchers",
        "rejected": "watcher.features.commands.watchers.rejected",
        "assets": "watcher.features.commands.assets.assets",
        "jobs": "watcher.features.commands.jobs.jobs",
        "runs": "watcher.features.commands.runs.runs",
        "store": "watcher.features.commands.store.store",
        "token": "watcher.features.commands.tokens.token",
    },
    help_groups={
        "check": "start",
        **dict.fromkeys(("status", "logs", "poll", "watchers", "assets", "jobs", "runs", "store"), "look"),
        **dict.fromkeys(("pause", "resume", "rewind", "rejected", "reload"), "act"),
        "token": "operate",
    },
)
