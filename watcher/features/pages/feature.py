"""The web pages."""

from watcher.feature import Feature

FEATURE = Feature(
    name="pages",
    needs=frozenset({"explain", "outbox", "reconcile", "replay", "rest"}),
    pages="watcher.features.pages.app.add_pages",
    commands={"open": "watcher.cli.pages.top", "sign-in-link": "watcher.cli.pages.top"},
)
