"""The files of a local run: what its author writes, checked, and what the run leaves there.

    job.json          {"dag_id", "task_id", "inlets", "outlets", "connections", "worker_backend", "conf", "logical_date",
                      "data_interval_start", "data_interval_end"}, each optional; an inlet or outlet is a name,
                      {"name", "uri"} or {"alias"}. Without `outlets` every asset is one.
    events.json       {asset: [{"extra": {…}}, …]}; an event may say whatever the daemon's say, such as "timestamp"
    past_events.json  the same, by asset or alias, for `inlet_events`; without it they are those of events.json

    asset_store.json  {asset: {key: {"value", "version"}}}; an entry without a value was deleted
    task_store.json   {key: {"value", "expires_at"}}
    run.json          which run and try this is, and how many transactions it has made
    finish.json       how the try ended: {"state", "outlet_events", "message"}

Of the first three none has to be there. Whatever is not as described raises an `AssetJobError` that names the file.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from itertools import count
from pathlib import Path
from typing import Any, TypeVar

from .client import now
from .errors import AssetJobError

_Kind = TypeVar("_Kind")
_WORDS = {dict: "object", list: "list", str: "text", int: "whole number"}


class _Unusable(Exception):
    """Why a file cannot be used."""


@dataclass(frozen=True, kw_only=True)
class Job:
    """What a configuration would say, and whoever asks for a run; times are ISO text."""

    dag_id: str = "local"
    task_id: str = "job"
    inlets: list[dict[str, str]] = field(default_factory=list)
    outlets: list[dict[str, str]] | None = None
    """None: not declared."""
    connections: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    worker_backend: Mapping[str, Any] | None = None
    conf: Mapping[str, Any] = field(default_factory=dict)
    logical_date: str | None = None
    data_interval_start: str | None = None
    data_interval_end: str | None = None

    @property
    def assets(self) -> Mapping[str, str]:
        return {one["name"]: one["uri"] for one in [*self.inlets, *(self.outlets or ())] if "name" in one}

    @property
    def any_asset(self) -> bool:
        """Whether assets that are not declared are in reach: none is declared, or an alias may lead to them."""
        return self.outlets is None or any("alias" in one for one in [*self.inlets, *self.outlets])


@dataclass(frozen=True)
class LocalFiles:
    """One folder, which is made when something is written."""

    folder: Path

    def job(self) -> Job:
        return self.read("job.json", _job)

    def events(self, uris: Mapping[str, str]) -> dict[str, list[dict[str, Any]]]:
        return self.read("events.json", lambda content: _events(content, uris))

    def past_events(self, uris: Mapping[str, str]) -> dict[str, list[dict[str, Any]]]:
        """Oldest first."""
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
        """The last run; its `number` is 0 when there was none."""
        return self.read("run.json", _run)

    def has(self, name: str) -> bool:
        return (self.folder / name).exists()

    def read(self, name: str, understand: Callable[[dict[str, Any]], _Kind]) -> _Kind:
        """What the object in a file means, or an empty one when it is not there. `understand` raises `_Unusable`."""
        path = self.folder / name
        try:
            content = json.loads(path.read_bytes()) if path.exists() else {}
            return understand(_is(dict, "the file", content))
        except (OSError, ValueError, _Unusable) as error:
            raise AssetJobError(f"{path} cannot be used: {error}; see 'Local runs' in docs/writing-a-job.md") from error

    def write(self, name: str, content: Mapping[str, Any]) -> None:
        """The file is there in whole, or as it was before."""
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
        raise _Unusable(f"its members are like {json.dumps(first)}; without the file the next run is the first")
    return run


def _job(content: dict[str, Any]) -> Job:
    content = {name: value for name, value in content.items() if value is not None}
    members = Job.__dataclass_fields__
    if unknown := content.keys() - members.keys():
        raise _Unusable(f"{', '.join(sorted(unknown))} is none of its members, which are {', '.join(members)}")
    for name in content.keys() & {"dag_id", "task_id"}:
        _is(str, name, content[name])
    for name in content.keys() & {"connections", "worker_backend", "conf"}:
        _is(dict, name, content[name])
    for name in content.keys() & {"logical_date", "data_interval_start", "data_interval_end"}:
        _check_moment(name, content[name])
    if "path" not in content.get("worker_backend", {"path": ""}):
        raise _Unusable("worker_backend has no path")
    roles = content.keys() & {"inlets", "outlets"}
    return Job(**{**content, **{role: [_asset(one) for one in _is(list, role, content[role])] for role in roles}})


def _asset(given: Any) -> dict[str, str]:
    match given:
        case str():
            return {"name": given, "uri": given}
        case {"alias": str(alias), **rest} if not rest:
            return {"alias": alias}
        case {"name": str(name), "uri": str(uri), **rest} if not rest:
            return {"name": name, "uri": uri}
    raise _Unusable(f'{given!r} is no inlet or outlet: write a name, {{"name", "uri"}} or {{"alias"}}')


def _events(content: dict[str, Any], uris: Mapping[str, str]) -> dict[str, list[dict[str, Any]]]:
    """What the events do not say is filled in: numbers in the order of the file, and the present as their time."""
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
        raise _Unusable(f"the {name} {text!r} is no ISO text with a time zone")


def _event(event: dict[str, Any]) -> dict[str, Any]:
    _check_moment("timestamp", event["timestamp"])
    if not isinstance(event["id"], int) or not {"name", "uri"} <= _is(dict, "`asset`", event["asset"]).keys():
        raise _Unusable('`id` is a number and `asset` has "name" and "uri"; leave them out, and they are filled in')
    extra = _is(dict, "`extra`", {} if event.get("extra") is None else event["extra"])
    for what in extra.keys() & {"files", "ranges", "rows"}:
        _is(list, what, extra[what])
    if not all(isinstance(ends, list) and len(ends) == 2 for ends in extra.get("ranges", ())):  # noqa: PLR2004
        raise _Unusable("a range is [first id, last id]")
    return event


def _age(event: Mapping[str, Any]) -> tuple[datetime, int]:
    return datetime.fromisoformat(event["timestamp"]), event["id"]


def _entries(content: Any) -> dict[str, Any]:
    for key, entry in _is(dict, "the entries", content).items():
        _is(int, f"the version of {key}", _is(dict, key, entry).get("version", 1))
    return dict(content)


def _is(kind: type[_Kind], what: str, content: Any) -> _Kind:
    if not isinstance(content, kind):
        raise _Unusable(f"{what} is no {_WORDS[kind]}")
    return content
