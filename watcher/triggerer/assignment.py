"""Assigns watchers to triggerers by rendezvous hashing, so that a join or a leave moves few. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial


@dataclass(frozen=True, kw_only=True)
class Assignment:
    """The triggerer of each watcher, the watchers for which none has room, and those that none knows as they were applied."""

    hosts: Mapping[str, str] = field(default_factory=dict)
    unassigned: frozenset[str] = frozenset()
    unknown: frozenset[str] = frozenset()

    def of(self, triggerer: str) -> frozenset[str]:
        """Return the watchers that fall to this triggerer."""
        return frozenset(name for name, host in self.hosts.items() if host == triggerer)


def anybody(_watcher: str, _triggerer: str) -> bool:
    return True


def assign(
    watchers: Iterable[str], capacities: Mapping[str, int], may_host: Callable[[str, str], bool] = anybody
) -> Assignment:
    """Assign watchers. Processes that know the same watchers and the same living triggerers get the same result.

    Watchers are assigned in order of name. Each goes to the triggerer with the greatest weight for it among those that may
    host it and have room.
    """
    room = {triggerer: capacity for triggerer, capacity in capacities.items() if capacity > 0}
    hosts: dict[str, str] = {}
    unassigned, unknown = set(), set()
    for name in sorted(watchers):
        able = [triggerer for triggerer in room if may_host(name, triggerer)]
        if able:
            host = hosts[name] = max(able, key=partial(_weight, name))
            room[host] -= 1
            if not room[host]:
                del room[host]
        elif not capacities or any(may_host(name, triggerer) for triggerer in capacities):
            unassigned.add(name)
        else:
            unknown.add(name)
    return Assignment(hosts=hosts, unassigned=frozenset(unassigned), unknown=frozenset(unknown))


def knows(
    applied: Mapping[str, str | None], definitions: Mapping[str, Mapping[str, str | None]]
) -> Callable[[str, str], bool]:
    """Return a function that tells whether a triggerer knows a watcher with the applied hash.

    A triggerer without `definitions` knows every watcher.
    """

    def may_host(watcher: str, triggerer: str) -> bool:
        known = definitions.get(triggerer)
        definition = applied.get(watcher)
        return known is None or definition is None or known.get(watcher) == definition

    return may_host


def _weight(watcher: str, triggerer: str) -> bytes:
    return hashlib.blake2b(f"{watcher}\n{triggerer}".encode(), digest_size=8).digest()
