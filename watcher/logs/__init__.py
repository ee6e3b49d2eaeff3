"""Where records go, and how people find them again: one file per watcher and process, one per try, all on stderr too."""

from watcher.logs.configuration import configure
from watcher.logs.paths import try_log

__all__ = ["configure", "try_log"]
