"""The array of options: each history draws a configuration from it, and counts which pairs it covers."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from random import Random
from typing import Any, Final

VALUES: Final[Mapping[str, Sequence[Any]]] = {
    "mode": ("window", "strict"),
    "partition": (None, "dt={dt}"),
    "clean_source": (None, "delete", "move_to"),
    "assets": (None, "other"),
    "batch": ("coalesce", "each", "per_partition"),
    "debounce": (None, "2s"),
    "max_events": (1000, 2),
    "max_active_runs": (1, 2),
    "cron": (None, "* * * * *"),
    "schedule": ("all", "any"),
    "where": (None, "files"),
    "retries": (0, 2),
    "processes": (1, 2, 3),
}
"""Each option, with its values. What is forbidden together is in `FORBIDDEN`, and refused by the check of a configuration."""
FORBIDDEN: Final[Sequence[tuple[tuple[str, Any], tuple[str, Any]]]] = (
    (("batch", "per_partition"), ("partition", None)),
    (("batch", "each"), ("debounce", "2s")),
    (("batch", "each"), ("cron", "* * * * *")),
    (("batch", "each"), ("max_events", 2)),
    (("batch", "per_partition"), ("debounce", "2s")),
)
PARTS: Final = ("dt=1", "dt=2")


@dataclass(frozen=True, kw_only=True)
class Options:
    """The options of one history."""

    values: Mapping[str, Any]

    def __getitem__(self, name: str) -> Any:
        return self.values[name]

    @classmethod
    def drawn(cls, random: Random) -> Options:
        while True:
            values = {name: random.choice(choices) for name, choices in VALUES.items()}
            if not any(values[a] == x and values[b] == y for (a, x), (b, y) in FORBIDDEN):
                return cls(values=values)

    @property
    def pairs(self) -> Iterator[tuple[Any, ...]]:
        """Yield each pair of values."""
        yield from combinations(sorted(self.values.items()), 2)

    def jobs(self, application: str, *, with_late: bool) -> Mapping[str, Any]:
        """Return the jobs, by name, each with its schedule as the model reads it."""
        spark = {"submitter": "tests.simulation.cluster.StandIn", "application": application}
        batch: dict[str, Any] = {"mode": self["batch"]}
        if self["debounce"]:
            batch |= {"debounce": self["debounce"], "max_wait": "10s"}
        if self["batch"] != "each":
            batch["max_events"] = self["max_events"]
        schedule: Any = "a" if self["where"] is None else {"asset": "a", "where": {"extra.watcher": self["where"]}}
        if self["cron"] is not None:
            schedule = {"any": [schedule], "or_cron": self["cron"]}
        common = {"spark": spark, "retries": self["retries"], "retry_delay": "5s"}
        jobs: dict[str, Any] = {
            "one": {
                "schedule": schedule,
                "outlets": ["c"],
                "batch": batch,
                "max_active_runs": self["max_active_runs"],
                **common,
            },
            "two": {"schedule": {self["schedule"]: ["a", "b"]}, **common},
            "three": {"schedule": "c", **common},
            "four": {"schedule": "b", "batch": {"mode": "each"}, **common},
        }
        if self["assets"]:
            jobs["five"] = {"schedule": "other", **common}
        if with_late:
            jobs["late"] = {"schedule": "a", "catchup": True, **common}
        return jobs

    def write(
        self, file: Path, home: Path, database: Path, folder: Path, *, with_late: bool, interval: str = "2s"
    ) -> None:
        """Write the configuration of one process."""
        files: dict[str, Any] = {
            "trigger": "file.new_files",
            "path": str(folder / "in"),
            "interval": interval,
            "start": "all",
            "identity": "path",
            "mode": self["mode"],
        }
        if self["partition"]:
            files["partition"] = self["partition"]
        if self["clean_source"] == "delete":
            files["clean_source"] = {"delete": True, "after": "5s"}
        if self["clean_source"] == "move_to":
            files["clean_source"] = {"move_to": str(folder / "done"), "after": "5s"}
        assets: dict[str, Any] = {
            "a": {"watchers": {"files": files}},
            "b": {"watchers": {"rows": {"trigger": "tests.simulation.sources.Rows", "isolation": "none"}}},
            "c": {},
        }
        if self["assets"]:
            files["assets"] = {"other": "**/other*"}
            assets["other"] = {}
        file.write_text(
            json.dumps(  # which is YAML, too
                {
                    "version": 1,
                    "settings": {
                        "home": str(home),
                        "database": {"url": f"sqlite+aiosqlite:///{database}"},
                        "api": {"auth": "none", "secret": "s" * 64},
                        "triggerer": {"heartbeat": "5s", "lease": "15s"},
                        "store": {"cleanup_interval": "1m"},
                    },
                    "assets": assets,
                    "jobs": dict(self.jobs(str(folder / "job.py"), with_late=with_late)),
                }
            )
        )
