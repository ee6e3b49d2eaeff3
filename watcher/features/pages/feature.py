"""The web pages."""

from watcher.feature import Feature

FEATURE = Feature(
    name="pages",
    needs=frozenset({"rest"}),
    pages="watcher.serving.web.app.add_pages",
    commands={"open": "watcher.cli.pages.top", "sign-in-link": "watcher.cli.pages.top"},
)
