"""A folder that stands in for the daemon, so that an author can run and test a job alone."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from asset_job.client import PATIENCE, ApiResponse, Transport
from asset_job.errors import Fenced, Forbidden, NotFound, StoreConflict
from asset_job.local_files import LocalFiles
from asset_job.transactions import number


class LocalFolder(Transport):
    """Implements the Execution API with the files of `local_files`, for one process at a time.

    Each claim begins a new run. If the last run did not end or has failed, it begins the next try of that run instead.
    """

    def __init__(self, folder: Path) -> None:
        self._files = LocalFiles(folder)
        self.job = self._files.job()
        self._claimed: tuple[str, int] = ("", 0)
        """Run id and try number of the claimed try."""
        self._one_at_a_time = threading.Lock()

    def request(  # noqa: PLR0911 - a return for each route
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Any = None,
        patience: float = PATIENCE,  # noqa: ARG002 - a folder always answers
    ) -> ApiResponse:
        with self._one_at_a_time:
            match [method, *path.split("/")]:
                case ["POST", "tries", "claim"]:
                    return ApiResponse(content=self._claim())
                case ["POST", "tries", "token"]:
                    self._fence()
                    return ApiResponse(content={"token": ""})
                case ["POST", "tries", "finish"]:
                    self._fence()
                    self._files.write("finish.json", body)
                    return ApiResponse()
                case ["POST", "store", "asset", "transaction"]:
                    return ApiResponse(content=self._transact(body))
                case [_, "store", "asset", _, what]:
                    return self._asset_store(method, what, query or {}, body)
                case ["GET", "store", "ti", _] if query:
                    return ApiResponse(content={"keys": sorted(_existing(self._files.task_store()))})
                case [_, "store", "ti", _, *key]:
                    return self._task_store(method, [unquote(part) for part in key], body)
                case ["GET", "asset-events", _]:
                    return ApiResponse(content={"asset_events": self._past_events(query or {})})
        raise NotFound(f"a local run does not support the call {path}: start the job through Asset Watcher for it")

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
        self._claimed = run["run_id"], run["try_number"]
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
            "partition_key": self.job.partition_key,
            "partition_complete": self.job.partition_complete,
            "late": self.job.late,
            "redelivered": self.job.redelivered,
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
        """The content of the run's file. Raises `Fenced` if the claimed try is not the current one any more."""
        run = self._files.run()
        run_id, try_number = self._claimed
        if (run["run_id"], run["try_number"]) != self._claimed:
            raise Fenced(f"try {try_number} of {run_id} was superseded by another run in {self._files.folder}")
        if self._files.has("finish.json"):
            raise Fenced(f"try {try_number} of {run_id} has ended")
        return run

    def _asset(self, given: str) -> str:
        """The name of the asset with this name or uri."""
        names = {uri: name for name, uri in self.job.assets.items()}
        name = given if given in self.job.assets else names.get(given, given)
        if name not in self.job.assets and not self.job.any_asset:
            raise Forbidden(
                f"{given} is not among the inlets and outlets in {self._files.folder / 'job.json'}: add it there"
            )
        return name

    def _asset_store(self, method: str, what: str, query: Mapping[str, str], body: Any) -> ApiResponse:
        asset, everything = self._asset(query.get("name") or query["uri"]), self._files.asset_store()
        entries = everything.setdefault(asset, {})
        if what == "keys":
            return ApiResponse(content={"keys": sorted(_existing(entries))})
        if what in {"clear", "references"}:
            response = _call_all(entries, method)
        else:
            response = _call_one(entries, method, query["key"], body)
        if method != "GET":
            self._fence()
            self._files.write("asset_store.json", everything)
        return response

    def _task_store(self, method: str, key: list[str], body: Any) -> ApiResponse:
        entries = self._files.task_store()
        response = _call_one(entries, method, key[0], body) if key else _call_all(entries, method)
        if method != "GET":
            self._fence()
            self._files.write("task_store.json", entries)
        return response

    def _transact(self, body: Mapping[str, Any]) -> dict[str, Any]:
        run, everything = self._fence(), self._files.asset_store()
        asset, ordinal = self._asset(body["asset"]), body["ordinal"]
        entries = everything.setdefault(asset, {})
        for key, version in body["reads"].items():
            if version != _version(_existing(entries).get(key)):
                raise StoreConflict(f"{key!r} has changed since it was read: repeat the transaction")
        for key, value in body["set"].items():
            _put(entries, key, {"value": value, **({"is_ref": True} if key in body["refs"] else {})})
        for key in body["delete"]:
            _delete(entries, key)
        if ordinal >= (completed := run["transactions"].get(asset, 0)):
            for key, n in body["increment"].items():
                _put(entries, key, {"value": number(key, _existing(entries).get(key, {"value": 0})["value"]) + n})
        self._files.write("asset_store.json", everything)
        self._files.write(
            "run.json", {**run, "transactions": {**run["transactions"], asset: max(completed, ordinal + 1)}}
        )
        existing, changed = _existing(entries), {*body["set"], *body["delete"], *body["increment"]}
        return {
            "versions": {key: _version(existing.get(key)) for key in changed},
            "values": {key: existing.get(key, {}).get("value") for key in body["increment"]},
        }

    def _past_events(self, query: Mapping[str, str]) -> list[dict[str, Any]]:
        given = query.get("name") or query["uri"]
        events = self._files.past_events(self.job.assets).get(self._asset(given) if "uri" in query else given, [])
        ordered = events if query["ascending"] == "true" else events[::-1]
        return ordered[: int(query.get("limit", len(events)))]


def _existing(entries: Mapping[str, Any]) -> dict[str, Any]:
    """The entries that have a value, which deleted ones do not."""
    return {key: entry for key, entry in entries.items() if "value" in entry}


def _version(entry: Mapping[str, Any] | None) -> int:
    return 0 if entry is None else int(entry.get("version", 1))


def _put(entries: dict[str, Any], key: str, entry: Mapping[str, Any]) -> None:
    entries[key] = {**entry, "version": _version(entries.get(key)) + 1}


def _delete(entries: dict[str, Any], key: str) -> None:
    """Delete an entry, and keep its version so that the next entry of the key counts on from it."""
    if key in entries:
        entries[key] = {"version": _version(entries[key])}


def _call_one(entries: dict[str, Any], method: str, key: str, body: Any) -> ApiResponse:
    """Put, delete or get the entry of one key. Raises `NotFound`."""
    if method == "PUT":
        _put(entries, key, body)
    elif method == "DELETE":
        _delete(entries, key)
    elif key not in _existing(entries):
        raise NotFound(f"there is no entry {key!r}")
    else:
        entry = entries[key]
        return ApiResponse(content=entry, version=_version(entry))
    return ApiResponse()


def _call_all(entries: dict[str, Any], method: str) -> ApiResponse:
    """Get the references of all entries, or delete all entries."""
    if method == "GET":
        references = {key: entry["value"] for key, entry in _existing(entries).items() if entry.get("is_ref")}
        return ApiResponse(content={"references": references})
    for key in entries:
        _delete(entries, key)
    return ApiResponse()
