"""What the events of a partition bring, compared with what it needs: files, rows, markers, and the files of manifests (pure)."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from triggers.shared.manifests import address_of, addresses, name_of

MOST_SHOWN: Final = 5
"""The most missing files, and manifests, that are named."""


class ComparedItems(Protocol):
    """What the events of one partition bring that counts for its completeness."""

    def add(self, asset: str, event_id: int, extra: str) -> None:
        """Add an event of the asset. `extra` is the text of a JSON object. Events come in the order of their ids."""

    def know(self, addresses: Collection[str]) -> None:
        """Let files with these addresses have come before all events."""

    def has(self, needed: int) -> bool:
        """Whether so many of the items have come. It may be asked after each event."""

    @property
    def count(self) -> int:
        """How many of the items that are needed have come."""

    @property
    def lacks(self) -> str:
        """What lacks, for people; '' if the count says it all."""


@dataclass
class DistinctItems:
    """Counts different files and rows of events, each once whatever its versions. An event that names none is one item.

    With `is_marker` only files count whose name it accepts.
    """

    is_marker: Callable[[str], bool] | None = None
    names: set[str] = field(default_factory=set)
    ranges: dict[str, list[tuple[int, int]]] = field(default_factory=dict)
    lacks: str = ""
    _in_ranges: int = 0
    """The integers in ranges, where some are in several."""

    def add(self, asset: str, event_id: int, extra: str) -> None:
        content = json.loads(extra)
        if self.is_marker is not None:
            names = map(name_of, _list(content.get("files")))
            self.names.update(name for name in names if self.is_marker(name))
            return
        files, keys, ranges = (_list(content.get(name)) for name in ("files", "keys", "ranges"))
        if not any(name in content for name in ("files", "keys", "ranges")):
            self.names.add(json.dumps([asset, "event", event_id]))
        named = [_name_of(file) for file in files]
        self.names.update(
            json.dumps([asset, kind, name]) for kind, some in (("file", named), ("key", keys)) for name in some
        )
        limits = [(each[0], each[1]) for each in ranges if isinstance(each, list) and _are_limits(each)]
        self.ranges.setdefault(asset, []).extend(limits)
        self._in_ranges += sum(max(0, high - low + 1) for low, high in limits)

    def know(self, addresses: Collection[str]) -> None:
        """Nothing: each delivery has items of its own."""

    def has(self, needed: int) -> bool:
        return len(self.names) + self._in_ranges >= needed and self.count >= needed

    @property
    def count(self) -> int:
        return len(self.names) + sum(_covered(ranges) for ranges in self.ranges.values())


@dataclass
class NamedFiles:
    """Compares the files of events with those that their manifests name. It counts 1 once all have come, and else 0.

    Of several versions of a manifest the newest counts. Of several manifests all have to be whole.
    """

    is_manifest: Callable[[str], bool]
    came: set[str] = field(default_factory=set)
    """The addresses of the files of all events."""
    manifests: dict[str, Sequence[str] | None] = field(default_factory=dict)
    """The names in each manifest, by its address; None: its event has none."""
    absent: dict[str, set[str]] = field(default_factory=dict)
    """The addresses that each manifest names and that have not come."""

    def add(self, asset: str, event_id: int, extra: str) -> None:  # noqa: ARG002 - files are files, whatever the asset
        content = json.loads(extra)
        named = content.get("manifests")
        for file in _list(content.get("files")):
            address = address_of(file)
            self.came.add(address)
            for absent in self.absent.values():
                absent.discard(address)
            if self.is_manifest(name_of(file)):
                names = named.get(address) if isinstance(named, dict) else None
                self.manifests[address] = names if isinstance(names, list) else None
                self.absent[address] = {*addresses(self.manifests[address] or (), address)} - self.came

    def know(self, addresses: Collection[str]) -> None:
        self.came.update(addresses)

    def has(self, needed: int) -> bool:
        return self.count >= needed

    @property
    def count(self) -> int:
        are_read = bool(self.manifests) and None not in self.manifests.values()
        return int(are_read and not any(self.absent.values()))

    @property
    def lacks(self) -> str:
        parts = [missing for each in self.manifests if (missing := self._missing(each))]
        more = [f"{len(parts) - MOST_SHOWN:,} more manifests"] if len(parts) > MOST_SHOWN else []
        return " and ".join([*parts[:MOST_SHOWN], *more])

    def _missing(self, manifest: str) -> str:
        """Return what lacks of the files of a manifest; '' if nothing does."""
        names = self.manifests[manifest]
        if names is None:
            return f"the names in `{manifest}`, which its watcher did not read (write it again)"
        pairs = zip(names, addresses(names, manifest), strict=True)
        missing = [name for name, address in pairs if address in self.absent[manifest]]
        if not missing:
            return ""
        listed = ", ".join(f"`{name}`" for name in missing[:MOST_SHOWN])
        more = f" and {len(missing) - MOST_SHOWN:,} more" if len(missing) > MOST_SHOWN else ""
        return f"{len(missing):,} of the {len(names):,} files that `{manifest}` names: {listed}{more}"


def files_of(extra: str) -> Sequence[str]:
    """Return the addresses of the files that an event names. `extra` is the text of a JSON object."""
    return [address_of(file) for file in _list(json.loads(extra).get("files"))]


def _name_of(file: object) -> object:
    if not isinstance(file, dict):
        return file
    return [file.get(name) for name in ("bucket", "key")] if "key" in file else file


def _list(value: object) -> Sequence[object]:
    return value if isinstance(value, list) else ()


def _are_limits(limits: list[object]) -> bool:
    return len(limits) == len(("low", "high")) and all(type(each) is int for each in limits)


def _covered(ranges: Iterable[tuple[int, int]]) -> int:
    """The number of integers in any of the ranges."""
    count, above = 0, None
    for low, high in sorted(ranges):
        first = low if above is None else max(low, above)
        count += max(0, high - first + 1)
        above = max(high + 1, first)
    return count
