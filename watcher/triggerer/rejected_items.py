"""The rejected items of a watcher, as its owner knows them, for the finding that lasts as long as there is one."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Final

from store.detection.rejections import Rejection
from store.values import to_json
from triggers.base import Finding, RejectedItem, TriggerBatch
from triggers.errors import SourceChanged

MOST_REJECTED: Final = 10_000
"""The largest number of rejected items of one watcher: its owner has all of them in memory."""
_NAMED: Final = 3


def as_items(rejections: Iterable[Rejection]) -> list[RejectedItem]:
    """Return rejections as a trigger takes them."""
    return [
        RejectedItem(
            key=json.loads(each.key), version=each.version, column=each.column_name, code=each.code, reason=each.reason
        )
        for each in rejections
    ]


def as_rejections(items: Iterable[RejectedItem]) -> list[Rejection]:
    """Return items as they are stored. Raises `InvalidValue` for a key that is no JSON."""
    return [
        Rejection(
            key=to_json(item.key), version=item.version, column_name=item.column, code=item.code, reason=item.reason
        )
        for item in items
    ]


class RejectedItems:
    """The rejected items of one watcher, by key and version."""

    __slots__ = ("_keys", "_watcher")

    def __init__(self, watcher: str, loaded: Sequence[Rejection]) -> None:
        self._watcher = watcher
        self._keys = {(each.key, each.version): None for each in loaded}

    def refuse_too_many(self, batch: TriggerBatch) -> None:
        """Refuse a batch, before it is committed, that would make the rejected items too many. Raises `SourceChanged`."""
        if batch.rejected and len(self._keys) + len(batch.rejected) - len(batch.settled) > MOST_REJECTED:
            raise SourceChanged(
                f"more than {MOST_REJECTED:,} items of {self._watcher} are rejected: correct what they have in common, and"
                f" `watcher rejected retry {self._watcher}`"
            )

    def take(self, batch: TriggerBatch) -> bool:
        """Take over a durable batch. Return whether it changed anything."""
        for each in as_rejections(batch.settled):
            self._keys.pop((each.key, each.version), None)
        self._keys.update({(each.key, each.version): None for each in as_rejections(batch.rejected)})
        return bool(batch.settled or batch.rejected)

    @property
    def findings(self) -> list[Finding]:
        if not self._keys:
            return []
        number, keys = len(self._keys), [key for key, _ in self._keys]
        shown = ", ".join(keys[:_NAMED]) + (", …" if number > _NAMED else "")
        what = "1 item is" if number == 1 else f"{number:,} items are"
        return [
            Finding.warning(
                "rejected",
                f"{what} rejected: {shown}",
                f"`watcher rejected list {self._watcher}` says why; correct what can be corrected, and"
                f" `watcher rejected retry {self._watcher}` emits what it can by then",
            )
        ]
