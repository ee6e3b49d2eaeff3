"""Why queued task instances have not been started. It is worked out when somebody asks, from what the leader saw last.

The leader keeps its reasons in one row, because they concern whole jobs, or the first run in the order of the queue.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from typing import Final

BEHIND: Final = "waits for its turn behind older runs"


@dataclass(frozen=True, kw_only=True)
class StartReasons:
    """Why the last look started no further run.

    `first` is the id of the oldest task instance that could start if there were room, and `why_first` says what it
    waits for; None: there was room for all. `of_jobs` has the jobs that the leading process cannot start, by `dag_id`.
    """

    first: str | None = None
    why_first: str = ""
    of_jobs: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    @lru_cache(maxsize=16)
    def from_json(cls, text: str | None) -> StartReasons:
        """Return the reasons that `leader.start_reasons` holds."""
        stored = {} if text is None else json.loads(text)
        return cls(first=stored.get("first"), why_first=stored.get("why_first", ""), of_jobs=stored.get("of_jobs", {}))

    def to_json(self) -> str | None:
        """Return the text that `leader.start_reasons` keeps; None if there is no reason."""
        return None if self == StartReasons() else json.dumps(asdict(self))

    def of(self, task_instance_id: str, dag_id: str) -> str | None:
        """Return why a task instance has not been started whose job may have another run; None: it is about to be."""
        if dag_id in self.of_jobs:
            return self.of_jobs[dag_id]
        if self.first is None:
            return None
        return self.why_first if task_instance_id == self.first else BEHIND
