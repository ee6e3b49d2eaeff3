"""Log records and how people find them: one file per watcher and process, one per try, and everything on stderr, too."""

from watcher.host.logs.configuration import OPEN_AT_MOST, configure, writes_json
from watcher.host.logs.paths import driver_log, end_of_copy, event_logs, try_log

__all__ = ["OPEN_AT_MOST", "configure", "driver_log", "end_of_copy", "event_logs", "try_log", "writes_json"]
