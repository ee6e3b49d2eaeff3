"""The REST API of people and tools, and the Execution API of jobs."""

from watcher.serving.api.app import create_app

__all__ = ["create_app"]
