"""Which of several triggerers hosts which watcher: rendezvous hashing, so that a join or a leave moves few (pure)."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial


@dataclass(frozen=True, kw_only=True)
class Assignment:
    """Each watcher's triggerer, and the watchers for which none has room."""

    hosts: Mapping[str, str] = field(default_factory=dict)
    left_out: frozenset[str] = frozenset()

    def of(self, triggerer: str) -> frozenset[str]:
        """The watchers that fall to it."""
        return frozenset(name for name, host in self.hosts.items() if host == triggerer)


def assign(watchers: Iterable[str], capacities: Mapping[str, int]) -> Assignment:
    """Every process that knows the same watchers and the same living triggerers comes to the same answer.

    Watchers choose in order of name, each the triggerer that weighs most for it among those with room.
    """
    room = {triggerer: capacity for triggerer, capacity in capacities.items() if capacity > 0}
    hosts: dict[str, str] = {}
    names = sorted(watchers)
    for name in names:
        if not room:
            break
        host = hosts[name] = max(room, key=partial(_weight, name))
        room[host] -= 1
        if not room[host]:
            del room[host]
    return Assignment(hosts=hosts, left_out=frozenset(names[len(hosts) :]))


def _weight(watcher: str, triggerer: str) -> bytes:
    return hashlib.blake2b(f"{watcher}\n{triggerer}".encode(), digest_size=8).digest()
