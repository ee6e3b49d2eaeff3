"""A bucket as S3 behaves, with its own clock: whole seconds, uploads that become visible with the time they began."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from triggers.file_scan.versions import SECOND, Moment, fingerprint

KEYS = [f"k{number:02}" for number in range(40)]


@dataclass(frozen=True, kw_only=True)
class SimulatedVersion:
    key: str
    number: int
    modified: Moment
    visible: Moment
    size: int = 1
    aliases: Sequence[int] = ()

    @property
    def fingerprint(self) -> int:
        return fingerprint(f"{self.key} {self.number}".encode())

    @property
    def fault(self) -> str | None:
        return None

    def describe(self) -> dict[str, str]:
        return {"key": self.key}


@dataclass(frozen=True, kw_only=True)
class SimulatedPage:
    clock: Moment
    last: str | None
    listed: list[SimulatedVersion]
    is_clock_believed: bool = True

    def __len__(self) -> int:
        return len(self.listed)

    def fingerprints(self) -> list[int]:
        return [version.fingerprint for version in self.listed]

    def moments(self) -> list[Moment]:
        return [version.modified for version in self.listed]

    def version(self, index: int, fingerprint: int) -> SimulatedVersion:
        assert self.listed[index].fingerprint == fingerprint
        return self.listed[index]

    def versions(self, since: Moment | None) -> Iterable[SimulatedVersion]:
        return [version for version in self.listed if since is None or version.modified >= since]


@dataclass(kw_only=True)
class SimulatedBucket:
    dice: random.Random
    longest_upload: int
    """The most microseconds between the beginning and the end of an upload."""
    skew: int = 0
    """The clock of the Date header minus the clock that stamps objects."""
    time: Moment = 1_800_000_000 * SECOND
    objects: dict[str, SimulatedVersion] = field(default_factory=dict)
    uploads: list[tuple[str, Moment, Moment]] = field(default_factory=list)
    """Key, begin, latest end."""
    versions: int = 0
    lists_below: str | None = None
    """Listings are cut without a sign: they end before this key. None: they are whole."""

    def happen(self) -> None:
        """Let a client do something that takes time; every upload completes in time."""
        self.time += self.dice.choice([0, 0, SECOND // 3, SECOND, 8 * SECOND])
        for upload in [upload for upload in self.uploads if upload[2] <= self.time]:
            self._complete(upload, at=upload[2])
        key = self.dice.choice(KEYS)
        match self.dice.randrange(8):
            case 0 | 1 | 2 | 3:
                self._put(key, began=self.time, at=self.time)
            case 4 | 5:
                self.uploads.append((key, self.time, self.time + self.dice.randrange(self.longest_upload + 1)))
            case 6 if self.uploads:
                self._complete(self.dice.choice(self.uploads), at=self.time)
            case _:
                self.objects.pop(key, None)

    def settle(self) -> None:
        """Complete everything that is under way; nothing more happens then."""
        for upload in [*self.uploads]:
            self.time = max(self.time, upload[2])
            self._complete(upload, at=self.time)

    def lie(self) -> None:
        """Begin to list nothing, or only some of the objects, or stop to."""
        self.lists_below = self.dice.choice([None, "", self.dice.choice(KEYS)])

    def page(self, after: str | None, size: int) -> SimulatedPage:
        listed_keys = (key for key in self.objects if self.lists_below is None or key < self.lists_below)
        keys = sorted(key for key in listed_keys if after is None or key > after)
        listed = [self.objects[key] for key in keys[:size]]
        last = listed[-1].key if len(keys) > size else None
        return SimulatedPage(clock=(self.time + self.skew) // SECOND * SECOND, last=last, listed=listed)

    def _complete(self, upload: tuple[str, Moment, Moment], *, at: Moment) -> None:
        self.uploads.remove(upload)
        self._put(upload[0], began=upload[1], at=at)

    def _put(self, key: str, *, began: Moment, at: Moment) -> None:
        self.versions += 1
        modified = began // SECOND * SECOND
        self.objects[key] = SimulatedVersion(key=key, number=self.versions, modified=modified, visible=at)
