"""The REST API for people and tools, and the Execution API for jobs."""

from watcher.serving.api.app import create_app

__all__ = ["create_app"]
