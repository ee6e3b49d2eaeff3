"""The array of options: each history draws a configuration from it, and counts which pairs it covers."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, product
from pathlib import Path
from random import Random
from typing import Any, Final, TypeAlias

from tests.service.scheduler.schedule_model import ModelComplete, ModelJob

Choice: TypeAlias = tuple[str, Any]
VALUES: Final[Mapping[str, Sequence[Any]]] = {
    "batch": ("coalesce", "each", "per_partition"),
    "complete": (None, "items", "region", "marker", "manifest"),
    "partition": (None, "day", "day and region"),
    "last": (None, "marker", "manifest"),
    "again": (None, True),
    "deadline": (None, "20s", "run"),
    "mode": ("window", "strict"),
    "clean_source": (None, "delete", "move_to"),
    "assets": (None, "other"),
    "debounce": (None, "2s"),
    "max_events": (1000, 2),
    "max_active_runs": (1, 2),
    "cron": (None, "* * * * *"),
    "schedule": ("all", "any"),
    "where": (None, "files"),
    "retries": (0, 2),
    "processes": (1, 2, 3),
}
"""Each option, with its values. They meet at the files of one watcher, and at the job `one` that loads these."""
_REMOVE: Final = "has no effect without `mode: per_partition`; remove it, or set the mode"
FORBIDDEN: Final[Mapping[tuple[Choice, Choice], str]] = {
    **{
        (("batch", mode), ("complete", each)): _REMOVE
        for mode in ("coalesce", "each")
        for each in VALUES["complete"][1:]
    },
    **{
        (("complete", "marker"), ("last", each)): 'give a watcher of files `last: ["**/_SUCCESS"]`'
        for each in (None, "manifest")
    },
    **{
        (("complete", "manifest"), ("last", each)): 'give a watcher of files `last: ["**/*.manifest"]`'
        for each in (None, "marker")
    },
    (("complete", "region"), ("partition", None)): "name parts in `partition` of the asset or its watchers",
    (("complete", "region"), ("partition", "day")): "unknown part `region`; known: `day`",
    (("complete", None), ("deadline", "run")): "needs `batch.complete`; remove it",
}
"""What the check of a configuration refuses together, and what it says of the remedy."""
INEXPRESSIBLE: Final[Collection[tuple[Choice, Choice]]] = {(("complete", None), ("again", True))}
"""What nobody can write together: `again` stands in `complete`."""
FOLDERS: Final[Mapping[str | None, Sequence[str]]] = {
    None: ("",),
    "day": ("dt=1/", "dt=2/"),
    "day and region": ("dt=1/region=x/", "dt=1/region=y/", "dt=2/region=x/"),
}
"""The folders of the partitions. The day 2 never has its second region."""
REGIONS: Final = ("x", "y")
LAST: Final[Mapping[str | None, str]] = {"marker": "**/_SUCCESS", "manifest": "**/*.manifest"}
VOUCHES: Final[Mapping[str | None, str]] = {"marker": "_SUCCESS", "manifest": "all.manifest"}
"""The name of the file in a folder that vouches for the others."""
_COMPLETE: Final[Mapping[str, tuple[Mapping[str, Any], ModelComplete]]] = {
    "items": ({"items": 2}, ModelComplete(items=2)),
    "region": ({"region": [*REGIONS]}, ModelComplete(part="region", values=REGIONS, needed=2)),
    "marker": ({"marker": LAST["marker"]}, ModelComplete(marked=True)),
    "manifest": ({"manifest": LAST["manifest"]}, ModelComplete(named=True)),
}
"""Each form of `complete`, as a configuration and as the model has it."""


def forbidden(values: Mapping[str, Any]) -> Sequence[tuple[Choice, Choice]]:
    """Return the pairs among these values that nobody may, or can, write together."""
    return [
        pair
        for pair in (*FORBIDDEN, *INEXPRESSIBLE)
        if all(name in values and values[name] == value for name, value in pair)
    ]


def allowed_pairs() -> Iterator[tuple[Choice, Choice]]:
    """Yield each pair of values of which some whole configuration has both."""
    bound = {name for pair in [*FORBIDDEN, *INEXPRESSIBLE] for name, _ in pair}
    names = [name for name in VALUES if name in bound]
    possible = [
        values
        for each in product(*(VALUES[name] for name in names))
        if not forbidden(values := dict(zip(names, each, strict=True)))
    ]
    for one, two in combinations(sorted(VALUES), 2):
        for first, second in product(VALUES[one], VALUES[two]):
            wanted = {name: value for name, value in ((one, first), (two, second)) if name in bound}
            if any(wanted.items() <= values.items() for values in possible):
                yield (one, first), (two, second)


@dataclass(frozen=True, kw_only=True)
class Options:
    """The options of one history."""

    values: Mapping[str, Any]

    def __getitem__(self, name: str) -> Any:
        return self.values[name]

    @classmethod
    def drawn(cls, random: Random, *, cleans: bool = False) -> Options:
        """Draw one of each. `cleans`: the source is cleaned."""
        while True:
            values = {name: random.choice(choices) for name, choices in VALUES.items()}
            if not forbidden(values) and not (cleans and values["clean_source"] is None):
                return cls(values=values)

    @property
    def pairs(self) -> Iterator[tuple[Choice, Choice]]:
        """Yield each pair of values."""
        yield from combinations(sorted(self.values.items()), 2)

    @property
    def model(self) -> ModelJob:
        """The job `one` as the model of schedules has it. That files have passed its `where` is decided when they are queued."""
        complete = None if self["complete"] is None else _COMPLETE[self["complete"]][1]
        if complete is not None and self["again"]:
            complete = ModelComplete(**{**vars(complete), "again": True})
        return ModelJob(
            schedule="a"
            if self["partition"] == "day and region"
            else "c",  # in the model, the keys of `a` have two parts
            month=None,
            each=self["batch"] == "each",
            max_events=self["max_events"],
            max_active_runs=self["max_active_runs"],
            per_partition=self["batch"] == "per_partition",
            by=("day",) if self["complete"] == "region" else None,
            complete=complete,
            run_after=self["deadline"] == "run",
        )

    def jobs(self, application: str, *, late: Collection[str]) -> Mapping[str, Any]:
        """Return the jobs, by name, each with its schedule as the model reads it."""
        spark = {"submitter": "tests.simulation.cluster.StandIn", "application": application}
        batch: dict[str, Any] = {"mode": self["batch"], "max_events": self["max_events"]}
        if self["debounce"]:
            batch |= {"debounce": self["debounce"], "max_wait": "10s"}
        if self["complete"]:
            again = {"again": True} if self["again"] else {}
            batch["complete"] = {**_COMPLETE[self["complete"]][0], **again}
        if self["complete"] == "region":
            batch["by"] = "day"
        schedule: Any = "a" if self["where"] is None else {"asset": "a", "where": {"extra.watcher": self["where"]}}
        if self["cron"] is not None:
            schedule = {"any": [schedule], "or_cron": self["cron"]}
        common = {"spark": spark, "retries": self["retries"], "retry_delay": "5s"}
        one = {
            "schedule": schedule,
            "outlets": ["c"],
            "batch": batch,
            "max_active_runs": self["max_active_runs"],
            **common,
        }
        if self["deadline"]:
            one["deadline"] = {"after": "20s", "then": "run"} if self["deadline"] == "run" else self["deadline"]
        jobs: dict[str, Any] = {
            "one": one,
            "two": {"schedule": {self["schedule"]: ["a", "b"]}, **common},
            "three": {"schedule": "c", **common},
            "four": {"schedule": "b", "batch": {"mode": "each"}, **common},
        }
        if self["assets"]:
            jobs["five"] = {"schedule": "other", **common}
        return {**jobs, **{dag_id: {"schedule": "a", "catchup": True, **common} for dag_id in late}}

    def write(
        self, file: Path, home: Path, database: Path, folder: Path, *, late: Collection[str], interval: str = "2s"
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
            files["partition"] = {
                part: f"{folder}={{}}" for part, folder in _PARTS.items() if part in self["partition"]
            }
        if self["last"]:
            files["last"] = [LAST[self["last"]]]
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
                        "store": {"cleanup_interval": "1m", "run_retention_days": 30},
                    },
                    "assets": assets,
                    "jobs": dict(self.jobs(str(folder / "job.py"), late=late)),
                }
            )
        )


_PARTS: Final = {"day": "dt", "region": "region"}
