"""The files of a local run: its author writes some, which are checked, and the run writes others.

    job.json          {"dag_id", "task_id", "inlets", "outlets", "connections", "worker_backend", "conf", "logical_date",
                      "data_interval_start", "data_interval_end", "partition_key", "partition_complete", "late", "redelivered"},
                      each optional; an inlet or outlet is a name, {"name", "uri"} or {"alias"}. Without `outlets` every asset is an outlet.
    events.json       {asset: [{"extra": {…}}, …]}; an event may have any member of the daemon's events, such as "timestamp"
    past_events.json  the same, by asset or alias, for `inlet_events`; without it, those of events.json are used

    asset_store.json  {asset: {key: {"value", "version"}}}; an entry without a value was deleted
    task_store.json   {key: {"value", "expires_at"}}
    run.json          which run and try this is, and how many transactions it has made
    finish.json       how the try ended: {"state", "outlet_events", "message"}

The first three are optional. Anything that is not as described raises an `AssetJobError` that names the file.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from itertools import count
from pathlib import Path
from typing import Any, TypeVar

from asset_job.client import now
from asset_job.errors import AssetJobError

_Kind = TypeVar("_Kind")
_JSON_NAMES = {dict: "an object", list: "a list", str: "a text", int: "a whole number", bool: "true or false"}


class _Unusable(Exception):
    """A file cannot be used; the message says why."""


@dataclass(frozen=True, kw_only=True)
class LocalJob:
    """The content of job.json: what a configuration and a request for a run would state. Times are ISO text."""

    dag_id: str = "local"
    task_id: str = "job"
    inlets: list[dict[str, str]] = field(default_factory=list)
    outlets: list[dict[str, str]] | None = None
    """None: not declared, so every asset is an outlet."""
    connections: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    worker_backend: Mapping[str, Any] | None = None
    conf: Mapping[str, Any] = field(default_factory=dict)
    logical_date: str | None = None
    data_interval_start: str | None = None
    data_interval_end: str | None = None
    partition_key: str | None = None
    partition_complete: bool | None = None
    late: bool = False
    redelivered: bool = False

    @property
    def assets(self) -> Mapping[str, str]:
        """The assets among inlets and outlets: name -> uri."""
        return {each["name"]: each["uri"] for each in [*self.inlets, *(self.outlets or ())] if "name" in each}

    @property
    def any_asset(self) -> bool:
        """Whether the job may use undeclared assets: no outlets are declared, or an alias may lead to them."""
        return self.outlets is None or any("alias" in each for each in [*self.inlets, *self.outlets])


@dataclass(frozen=True)
class LocalFiles:
    """The files in one folder, which is created when a file is written."""

    folder: Path

    def job(self) -> LocalJob:
        return self.read("job.json", _job)

    def events(self, uris: Mapping[str, str]) -> dict[str, list[dict[str, Any]]]:
        """The events that the run consumes, by asset. `uris`: name -> uri."""
        return self.read("events.json", lambda content: _events(content, uris))

    def past_events(self, uris: Mapping[str, str]) -> dict[str, list[dict[str, Any]]]:
        """The past events by asset or alias, oldest first. `uris`: name -> uri."""
        name = "past_events.json" if self.has("past_events.json") else "events.json"
        by_asset = self.read(name, lambda content: _events(content, uris))
        return {asset: sorted(events, key=_age) for asset, events in by_asset.items()}

    def asset_store(self) -> dict[str, dict[str, Any]]:
        return self.read(
            "asset_store.json", lambda content: {asset: _entries(entries) for asset, entries in content.items()}
        )

    def task_store(self) -> dict[str, Any]:
        return self.read("task_store.json", _entries)

    def run(self) -> dict[str, Any]:
        """The last run; its `number` is 0 if there was none."""
        return self.read("run.json", _run)

    def has(self, name: str) -> bool:
        return (self.folder / name).exists()

    def read(self, name: str, parse: Callable[[dict[str, Any]], _Kind]) -> _Kind:
        """The parsed object of a file; an empty object stands in for a missing file. `parse` may raise `_Unusable`.

        Raises `AssetJobError`, which names the file.
        """
        path = self.folder / name
        try:
            content = json.loads(path.read_bytes()) if path.exists() else {}
            return parse(_is(dict, "the file", content))
        except (OSError, ValueError, _Unusable) as error:
            raise AssetJobError(f"{path} cannot be used: {error}; see 'Local runs' in docs/writing-a-job.md") from error

    def write(self, name: str, content: Mapping[str, Any]) -> None:
        """Replace a file. Whenever that is interrupted, the file is complete, or as it was before."""
        self.folder.mkdir(parents=True, exist_ok=True)
        unfinished = self.folder / f".{name}.tmp"
        unfinished.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
        unfinished.replace(self.folder / name)

    def remove(self, name: str) -> None:
        (self.folder / name).unlink(missing_ok=True)


def _run(content: dict[str, Any]) -> dict[str, Any]:
    first = {"number": 0, "run_id": "", "try_number": 0, "transactions": {}}
    run = {**first, **content}
    if any(type(run[name]) is not type(value) for name, value in first.items()):
        raise _Unusable(f"its members must be like {json.dumps(first)}; delete the file to begin with the first run")
    return run


def _job(content: dict[str, Any]) -> LocalJob:
    content = {name: value for name, value in content.items() if value is not None}
    members = LocalJob.__dataclass_fields__
    if unknown := content.keys() - members.keys():
        raise _Unusable(f"{', '.join(sorted(unknown))} is not among its members, which are {', '.join(members)}")
    for name in content.keys() & {"dag_id", "task_id", "partition_key"}:
        _is(str, name, content[name])
    for name in content.keys() & {"partition_complete", "late", "redelivered"}:
        _is(bool, name, content[name])
    for name in content.keys() & {"connections", "worker_backend", "conf"}:
        _is(dict, name, content[name])
    for name in content.keys() & {"logical_date", "data_interval_start", "data_interval_end"}:
        _check_moment(name, content[name])
    if "path" not in content.get("worker_backend", {"path": ""}):
        raise _Unusable("worker_backend has no path")
    outlets = content.get("outlets")
    return LocalJob(
        dag_id=content.get("dag_id", LocalJob.dag_id),
        task_id=content.get("task_id", LocalJob.task_id),
        inlets=_assets("inlets", content.get("inlets", [])),
        outlets=None if outlets is None else _assets("outlets", outlets),
        connections=content.get("connections", {}),
        worker_backend=content.get("worker_backend"),
        conf=content.get("conf", {}),
        logical_date=content.get("logical_date"),
        data_interval_start=content.get("data_interval_start"),
        data_interval_end=content.get("data_interval_end"),
        partition_key=content.get("partition_key"),
        partition_complete=content.get("partition_complete"),
        late=content.get("late", False),
        redelivered=content.get("redelivered", False),
    )


def _assets(role: str, content: Any) -> list[dict[str, str]]:
    return [_asset(each) for each in _is(list, role, content)]


def _asset(given: Any) -> dict[str, str]:
    match given:
        case str():
            return {"name": given, "uri": given}
        case {"alias": str(alias), **rest} if not rest:
            return {"alias": alias}
        case {"name": str(name), "uri": str(uri), **rest} if not rest:
            return {"name": name, "uri": uri}
    raise _Unusable(f'{given!r} is not an inlet or outlet: write a name, {{"name", "uri"}} or {{"alias"}}')


def _events(content: dict[str, Any], uris: Mapping[str, str]) -> dict[str, list[dict[str, Any]]]:
    """The events of a file. Missing members are filled in: ids in the order of the file, and the present as the timestamp."""
    numbers, moment = count(1), now().isoformat()
    return {
        asset: [
            _event(
                {
                    "id": next(numbers),
                    "timestamp": moment,
                    "asset": {"name": asset, "uri": uris.get(asset, asset)},
                    **_is(dict, f"an event of {asset}", event),
                }
            )
            for event in _is(list, asset, events)
        ]
        for asset, events in content.items()
    }


def _check_moment(name: str, text: Any) -> None:
    if not isinstance(text, str) or datetime.fromisoformat(text).tzinfo is None:
        raise _Unusable(f"the {name} {text!r} is not ISO text with a time zone")


def _event(event: dict[str, Any]) -> dict[str, Any]:
    _check_moment("timestamp", event["timestamp"])
    if not isinstance(event["id"], int) or not {"name", "uri"} <= _is(dict, "`asset`", event["asset"]).keys():
        raise _Unusable('`id` must be a number and `asset` must have "name" and "uri"; without them they are filled in')
    extra = _is(dict, "`extra`", {} if event.get("extra") is None else event["extra"])
    for what in extra.keys() & {"files", "ranges", "rows"}:
        _is(list, what, extra[what])
    if not all(isinstance(ends, list) and len(ends) == 2 for ends in extra.get("ranges", ())):  # noqa: PLR2004
        raise _Unusable("a range must be [first id, last id]")
    return event


def _age(event: Mapping[str, Any]) -> tuple[datetime, int]:
    return datetime.fromisoformat(event["timestamp"]), event["id"]


def _entries(content: Any) -> dict[str, Any]:
    for key, entry in _is(dict, "the entries", content).items():
        _is(int, f"the version of {key}", _is(dict, key, entry).get("version", 1))
    return dict(content)


def _is(kind: type[_Kind], what: str, content: Any) -> _Kind:
    """The content, if it is of this kind. Raises `_Unusable` otherwise."""
    if not isinstance(content, kind):
        raise _Unusable(f"{what} is not {_JSON_NAMES[kind]}")
    return content
