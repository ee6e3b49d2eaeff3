"""Which of several triggerers hosts which watcher: rendezvous hashing, so that a join or a leave moves few (pure)."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence


def assigned(watchers: Iterable[str], triggerer: str, living: Sequence[str]) -> frozenset[str]:
    """The watchers that fall to `triggerer` among the living; all of them when it is alone or not counted yet."""
    if not living:
        return frozenset(watchers)
    return frozenset(name for name in watchers if max(living, key=lambda other: _weight(name, other)) == triggerer)


def _weight(watcher: str, triggerer: str) -> bytes:
    return hashlib.blake2b(f"{watcher}\n{triggerer}".encode(), digest_size=8).digest()
