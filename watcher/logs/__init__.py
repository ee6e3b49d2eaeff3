"""Where records go, and how people find them again: one file per watcher and process, one per try, all on stderr too."""

from watcher.logs.configuring import configure
from watcher.logs.places import try_log

__all__ = ["configure", "try_log"]
