"""Changes as events (pure)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from triggers.base import JsonObject, JsonValue, TriggerEvent
from triggers.changes.codec import DecodedChange
from triggers.changes.keyed_changes import KeyedChange
from triggers.changes.log_position import LoggedChange, lsn_text
from triggers.changes.options import ChangesOptions
from triggers.event_assets import divided
from triggers.partition_keys import KeyedItems

KEYS_AGAIN: Final = 2
"""A key stands in its change, and once more in the event's `keys` or `deleted`."""


def change_as_json(change: LoggedChange, decoded: DecodedChange) -> JsonObject:
    """Return one change as it stands in an event."""
    members: dict[str, JsonValue] = {"op": change.op, "key": decoded.key}
    if decoded.old_key is not None:
        members["old_key"] = decoded.old_key
    members |= {"lsn": lsn_text(change.lsn), "xid": change.xid, "commit_time": change.time.isoformat()}
    if decoded.row is not None:
        members["row"] = decoded.row
    if decoded.unchanged:
        members["unchanged"] = decoded.unchanged
    return members


def keys_of(changes: Sequence[Mapping[str, Any]]) -> JsonObject:
    """Return the distinct keys whose last change is no delete, and the others. A TRUNCATE deletes all keys before it."""
    lives: dict[str, tuple[JsonValue, bool]] = {}
    for change in changes:
        if change["op"] == "truncate":
            lives = {text: (key, False) for text, (key, _) in lives.items()}
            continue
        for key, is_there in ((change.get("old_key"), False), (change["key"], change["op"] != "delete")):
            if key is not None:
                text = json.dumps(key)
                lives.pop(text, None)
                lives[text] = (key, is_there)
    return {
        "keys": [key for key, is_there in lives.values() if is_there],
        "deleted": [key for key, is_there in lives.values() if not is_there],
    }


def events_of(
    changes: Sequence[KeyedChange], keys: KeyedItems, options: ChangesOptions, watermark: JsonObject
) -> Iterator[TriggerEvent]:
    """Yield events as large as the options allow: of one asset and partition key each, in their order, null last."""
    copies = (copy for change in changes for copy in change.copies())
    keyed = None if options.partition is None else keys
    for target, some in divided(copies, options.further_assets, keyed, lambda change: json.dumps(change[0]["key"])):
        for limits in options.batch.parts([size for _, size in some], options.batch.max_rows):
            part = [member for member, _ in some[limits]]
            payload: JsonObject = {"table": options.table, "mode": options.mode, "changes": part, **keys_of(part)}
            yield TriggerEvent(
                count=len(part), watermark=watermark, payload=payload, partition_key=target.key, asset=target.asset
            )


def bytes_of(change: JsonObject) -> int:
    """Return the bytes that a change takes in an event."""
    keys = sum(len(json.dumps(change[name])) + KEYS_AGAIN for name in ("key", "old_key") if name in change)
    return len(json.dumps(change)) + KEYS_AGAIN + keys
