"""The web pages."""

from watcher.feature import Feature

FEATURE = Feature(
    name="pages",
    needs=frozenset({"explain", "outbox", "problems", "reconcile", "replay", "rest"}),
    pages="watcher.features.pages.app.add_pages",
    commands={"open": "watcher.features.commands.pages.top", "sign-in-link": "watcher.features.commands.pages.top"},
    help_groups={"open": "start", "sign-in-link": "operate"},
)
