"""A folder in the daemon's place, so that an author can run and test a job alone."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from .client import PATIENCE, Answer, Transport
from .errors import Fenced, Forbidden, NotFound, StoreConflict
from .local_files import LocalFiles
from .transactions import number


class LocalFolder(Transport):
    """The Execution API over the files of `local_files`, for one process at a time.

    Each claim begins a new run; or, when the last one did not end or has failed, the next try of that run.
    """

    def __init__(self, folder: Path) -> None:
        self._files = LocalFiles(folder)
        self.job = self._files.job()
        self._held: tuple[str, int] = ("", 0)
        self._one_at_a_time = threading.Lock()

    def answer(  # noqa: PLR0911 - one for each route
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Any = None,
        patience: float = PATIENCE,  # noqa: ARG002 - it is always there
    ) -> Answer:
        with self._one_at_a_time:
            match [method, *path.split("/")]:
                case ["POST", "tries", "claim"]:
                    return Answer(content=self._claim())
                case ["POST", "tries", "token"]:
                    self._fence()
                    return Answer(content={"token": ""})
                case ["POST", "tries", "finish"]:
                    self._fence()
                    self._files.write("finish.json", body)
                    return Answer()
                case ["POST", "store", "asset", "transaction"]:
                    return Answer(content=self._transact(body))
                case [_, "store", "asset", _, what]:
                    return self._asset_store(method, what, query or {}, body)
                case ["GET", "store", "ti", _] if query:
                    return Answer(content={"keys": sorted(_there(self._files.task_store()))})
                case [_, "store", "ti", _, *key]:
                    return self._task_store(method, [unquote(part) for part in key], body)
                case ["GET", "asset-events", _]:
                    return Answer(content={"asset_events": self._past_events(query or {})})
        raise NotFound(f"a local run knows nothing of {path}")

    def _claim(self) -> dict[str, Any]:
        events = self._files.events(self.job.assets)
        run = self._files.run()
        ended = self._files.read("finish.json", lambda content: content.get("state"))
        if not run["number"] or ended in {"success", "skipped"}:
            number = run["number"] + 1
            run = {"number": number, "run_id": f"local__{number}", "try_number": 0, "transactions": {}}
            self._files.remove("task_store.json")
        run["try_number"] += 1
        self._files.write("run.json", run)
        self._files.remove("finish.json")
        self._held = run["run_id"], run["try_number"]
        return {
            "dag_id": self.job.dag_id,
            "run_id": run["run_id"],
            "task_id": self.job.task_id,
            "map_index": -1,
            "try_number": run["try_number"],
            "task_instance_id": run["run_id"],
            "conf": self.job.conf,
            "logical_date": self.job.logical_date,
            "data_interval_start": self.job.data_interval_start,
            "data_interval_end": self.job.data_interval_end,
            "triggering_asset_events": events,
            "inlets": self.job.inlets,
            "outlets": self.job.outlets or [],
            "any_outlet": self.job.outlets is None,
            "options": {},
            "worker_backend": self.job.worker_backend,
            "default_retention_days": 30,
            "clear_on_success": False,
        }

    def _fence(self) -> dict[str, Any]:
        """The run's file. Raises `Fenced` when this is no longer its try."""
        run = self._files.run()
        run_id, try_number = self._held
        if (run["run_id"], run["try_number"]) != self._held:
            raise Fenced(f"try {try_number} of {run_id} was superseded by another run in {self._files.folder}")
        if self._files.has("finish.json"):
            raise Fenced(f"try {try_number} of {run_id} has ended")
        return run

    def _asset(self, given: str) -> str:
        """The name of the asset with this name or uri."""
        names = {uri: name for name, uri in self.job.assets.items()}
        name = given if given in self.job.assets else names.get(given, given)
        if name not in self.job.assets and not self.job.any_asset:
            raise Forbidden(f"{given} is none of the inlets and outlets in {self._files.folder / 'job.json'}")
        return name

    def _asset_store(self, method: str, what: str, query: Mapping[str, str], body: Any) -> Answer:
        asset, everything = self._asset(query.get("name") or query["uri"]), self._files.asset_store()
        entries = everything.setdefault(asset, {})
        if what == "keys":
            return Answer(content={"keys": sorted(_there(entries))})
        answer = _all(entries, method) if what in {"clear", "references"} else _one(entries, method, query["key"], body)
        if method != "GET":
            self._fence()
            self._files.write("asset_store.json", everything)
        return answer

    def _task_store(self, method: str, key: list[str], body: Any) -> Answer:
        entries = self._files.task_store()
        answer = _one(entries, method, key[0], body) if key else _all(entries, method)
        if method != "GET":
            self._fence()
            self._files.write("task_store.json", entries)
        return answer

    def _transact(self, body: Mapping[str, Any]) -> dict[str, Any]:
        run, everything = self._fence(), self._files.asset_store()
        asset, ordinal = self._asset(body["asset"]), body["ordinal"]
        entries = everything.setdefault(asset, {})
        for key, version in body["reads"].items():
            if version != _version(_there(entries).get(key)):
                raise StoreConflict(f"{key!r} has changed since it was read: repeat the transaction")
        for key, value in body["set"].items():
            _put(entries, key, {"value": value, **({"is_ref": True} if key in body["refs"] else {})})
        for key in body["delete"]:
            _delete(entries, key)
        if ordinal >= (made := run["transactions"].get(asset, 0)):
            for key, n in body["increment"].items():
                _put(entries, key, {"value": number(key, _there(entries).get(key, {"value": 0})["value"]) + n})
        self._files.write("asset_store.json", everything)
        self._files.write("run.json", {**run, "transactions": {**run["transactions"], asset: max(made, ordinal + 1)}})
        there, changed = _there(entries), {*body["set"], *body["delete"], *body["increment"]}
        return {
            "versions": {key: _version(there.get(key)) for key in changed},
            "values": {key: there.get(key, {}).get("value") for key in body["increment"]},
        }

    def _past_events(self, query: Mapping[str, str]) -> list[dict[str, Any]]:
        given = query.get("name") or query["uri"]
        events = self._files.past_events(self.job.assets).get(self._asset(given) if "uri" in query else given, [])
        in_order = events if query["ascending"] == "true" else events[::-1]
        return in_order[: int(query.get("limit", len(events)))]


def _there(entries: Mapping[str, Any]) -> dict[str, Any]:
    return {key: entry for key, entry in entries.items() if "value" in entry}


def _version(entry: Mapping[str, Any] | None) -> int:
    return 0 if entry is None else int(entry.get("version", 1))


def _put(entries: dict[str, Any], key: str, entry: Mapping[str, Any]) -> None:
    entries[key] = {**entry, "version": _version(entries.get(key)) + 1}


def _delete(entries: dict[str, Any], key: str) -> None:
    """The version stays, so that it goes on counting."""
    if key in entries:
        entries[key] = {"version": _version(entries[key])}


def _one(entries: dict[str, Any], method: str, key: str, body: Any) -> Answer:
    if method == "PUT":
        _put(entries, key, body)
    elif method == "DELETE":
        _delete(entries, key)
    elif key not in _there(entries):
        raise NotFound(f"there is no {key!r}")
    else:
        entry = entries[key]
        return Answer(content=entry, version=_version(entry))
    return Answer()


def _all(entries: dict[str, Any], method: str) -> Answer:
    if method == "GET":
        references = {key: entry["value"] for key, entry in _there(entries).items() if entry.get("is_ref")}
        return Answer(content={"references": references})
    for key in entries:
        _delete(entries, key)
    return Answer()
