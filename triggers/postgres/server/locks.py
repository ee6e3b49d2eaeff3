"""Which transactions held a lock at one moment (pure)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class LockSet:
    """The transactions that held a certain lock at one moment.

    In mode `id` it is RowExclusiveLock on the table, its partitions or its sequences. In mode `updated_at` it is the lock that
    every open transaction has on itself. `holders` maps a virtual transaction to its process, None for a prepared transaction.
    `boot` changes when the server is restarted. `at` is the server's clock as ISO 8601 text. A transaction that begins later has
    a now() above `at`, or above `since` if that is earlier.
    """

    boot: str
    at: str
    holders: Mapping[str, int | None]
    since: str | None = None

    def remaining(self, earlier: frozenset[str], boot: str) -> frozenset[str]:
        """Return the holders in `earlier` (listed while the server's boot id was `boot`) that may still hold the lock.

        A prepared transaction may change its virtual transaction to `-1/xid` (a restart does that). So a holder with such a name
        may be any that left the list, and is always returned. Other virtual transactions do not survive a restart.
        """
        prepared = frozenset(holder for holder in self.holders if holder.startswith("-1/"))
        return (earlier & frozenset(self.holders)) | prepared if boot == self.boot else prepared
