"""A table as the events of mode `log` leave it."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from triggers.base import TriggerEvent


@dataclass
class ReplayedTable:
    """The rows by the JSON text of their keys. What is impossible after the changes before it is an error."""

    rows: dict[str, dict[str, Any]] = field(default_factory=dict)
    places: list[tuple[int, str, str]] = field(default_factory=list)

    def apply(self, events: Iterable[TriggerEvent]) -> None:
        for event in events:
            payload: Any = json.loads(json.dumps(event.payload))
            assert event.count == len(payload["changes"])
            before = dict(self.rows)
            for change in payload["changes"]:
                self._apply(change)
            self._compare_keys(payload, before)

    def _apply(self, change: dict[str, Any]) -> None:
        key, old = json.dumps(change["key"]), json.dumps(change.get("old_key", change["key"]))
        self.places.append((change["xid"], change["lsn"], key))
        match change["op"]:
            case "insert":
                assert key not in self.rows, f"{key} is inserted twice"
                self.rows[key] = change["row"]
            case "update":
                before = self.rows.pop(old)
                kept = {name: before[name] for name in change.get("unchanged", ())}
                assert not kept.keys() & change["row"].keys()
                self.rows[key] = {**kept, **change["row"]}
            case "delete":
                del self.rows[key]
            case "truncate":
                self.rows.clear()

    def _compare_keys(self, payload: dict[str, Any], before: dict[str, Any]) -> None:
        keys, deleted = ({json.dumps(key) for key in payload[name]} for name in ("keys", "deleted"))
        assert not keys & deleted
        assert keys <= self.rows.keys()
        assert not deleted & self.rows.keys()
        truncated = any(change["op"] == "truncate" for change in payload["changes"])
        assert truncated or before.keys() - self.rows.keys() <= deleted
