"""Which event an item stands in: the assets of a watcher's option `assets`, its own asset for the rest, and partition keys."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, NamedTuple, TypeVar

from triggers.partition_keys import KeyedItems

ItemT = TypeVar("ItemT")


class EventTarget(NamedTuple):
    """What all items of an event have in common."""

    asset: str | None = None
    """None: the watcher's own."""
    key: str | None = None
    """The partition key."""


OWN: Final = EventTarget()
"""The watcher's own asset, without a key."""


def divided(
    placed: Iterable[tuple[EventTarget, ItemT]],
    assets: Sequence[str],
    keys: KeyedItems | None,
    name_of: Callable[[ItemT], str],
) -> Iterator[tuple[EventTarget, Sequence[ItemT]]]:
    """Yield the items of each target: assets in the order given, the watcher's own last; keys in their order, null last.

    The items of one target are in the order given. `keys` is None where no partition is configured.
    """
    of_asset: dict[str | None, list[tuple[str | None, ItemT]]] = {asset: [] for asset in (*assets, None)}
    for target, item in placed:
        of_asset[target.asset].append((target.key, item))
    for asset, mine in of_asset.items():
        if keys is not None:
            for key, some in keys.divided(mine, lambda keyed: keyed[0], lambda keyed: name_of(keyed[1])):
                yield EventTarget(asset, key), [item for _, item in some]
        elif mine:
            yield EventTarget(asset), [item for _, item in mine]
