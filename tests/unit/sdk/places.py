"""The two environments of a run: a daemon, here its API alone, or a local folder. One suite runs in both."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any

from asset_job import Run
from asset_job.run_context import local_run, submitted_run
from tests.unit.sdk.execution_server import ExecutionServer

Assets = list[dict[str, str]]
Events = dict[str, list[dict[str, Any]]]


class Place(ABC):
    """An environment. Tests set what there is, then enter runs; after a failed run, its next try."""

    inlets: Assets
    outlets: Assets
    events: Events
    past_events: Events
    worker_backend: dict[str, Any] | None
    asked: dict[str, Any]
    """What the run was requested with: `conf` and times as ISO text."""

    def __init__(self) -> None:
        self.inlets, self.outlets, self.events, self.past_events = [], [], {}, {}
        self.worker_backend, self.asked = None, {}

    @abstractmethod
    def run(self) -> Run: ...

    @abstractmethod
    def finished(self) -> dict[str, Any] | None:
        """What the last run reported at its end; None: nothing."""

    @abstractmethod
    def stored(self, asset: str) -> dict[str, Any]:
        """The entries of an asset by key: values, or references."""

    @abstractmethod
    def store(self, asset: str, key: str, value: Any) -> None:
        """Store an entry as another job would."""


class BesideADaemon(Place):
    def __init__(self, daemon: ExecutionServer) -> None:
        super().__init__()
        self.daemon = daemon

    def run(self) -> Run:
        self._tell()
        self.daemon.again()
        return submitted_run(self.daemon.context())

    def _tell(self) -> None:
        self.daemon.claim = {
            "inlets": self.inlets,
            "outlets": self.outlets,
            "triggering_asset_events": self.events,
            "worker_backend": self.worker_backend,
            "asked": self.asked,
        }
        self.daemon.past_events = self.past_events

    def finished(self) -> dict[str, Any] | None:
        return self.daemon.finished[-1] if self.daemon.finished else None

    def stored(self, asset: str) -> dict[str, Any]:
        return {key: entry["value"] for (name, key), entry in self.daemon.entries.items() if name == asset}

    def store(self, asset: str, key: str, value: Any) -> None:
        self._tell()
        self.daemon.put((asset, key), {"value": value})


class InAFolder(Place):
    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder = folder

    def run(self) -> Run:
        job = {"inlets": self.inlets, "outlets": self.outlets, "worker_backend": self.worker_backend, **self.asked}
        for name, content in {"job": job, "events": self.events, "past_events": self.past_events}.items():
            (self.folder / f"{name}.json").write_text(json.dumps(content))
        return local_run(self.folder)

    def finished(self) -> dict[str, Any] | None:
        return self._content("finish.json") or None

    def stored(self, asset: str) -> dict[str, Any]:
        entries = self._content("asset_store.json").get(asset, {})
        return {key: entry["value"] for key, entry in entries.items() if "value" in entry}

    def store(self, asset: str, key: str, value: Any) -> None:
        everything = self._content("asset_store.json")
        entries = everything.setdefault(asset, {})
        entries[key] = {"value": value, "version": entries.get(key, {"version": 0})["version"] + 1}
        (self.folder / "asset_store.json").write_text(json.dumps(everything))

    def _content(self, name: str) -> dict[str, Any]:
        path = self.folder / name
        content: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
        return content
