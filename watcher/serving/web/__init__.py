"""The web pages: what the API reads, for people; server-made HTML that needs no script to be read."""

from watcher.serving.web.app import create_app

__all__ = ["create_app"]
