"""Pages of file versions, as a listing shows them, and the moments that date them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Final, Protocol, TypeAlias

from triggers.base import JsonObject

Moment: TypeAlias = int
"""Microseconds since 1970 in UTC: integers compare, subtract and hash without surprises."""

SECOND: Final = 1_000_000
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)


def moment_of(value: datetime) -> Moment:
    """The moment of a datetime; without a zone it counts as UTC."""
    return ((value if value.tzinfo else value.replace(tzinfo=UTC)) - _EPOCH) // _MICROSECOND


def length_of(value: timedelta) -> int:
    """The length of a timedelta in microseconds."""
    return value // _MICROSECOND


def parse_moment(text: str) -> Moment:
    """Parse an ISO 8601 date or timestamp. Raises ValueError for any other text."""
    return moment_of(datetime.fromisoformat(text))


@lru_cache(maxsize=2**10)
def format_moment(moment: Moment) -> str:
    """`2026-11-20T09:00:00Z`, with a fraction only where there is one."""
    return (_EPOCH + moment * _MICROSECOND).replace(tzinfo=None).isoformat() + "Z"


NOT_SELECTED: Final = 0
"""Takes the place of the fingerprint where the watcher does not select the file."""


def fingerprint(version: bytes) -> int:
    """The signed 64-bit name of a version, the same in every process and release.

    Two versions out of a million share one with a probability of 3e-8 (birthday bound); the second would be missed.
    """
    return int.from_bytes(hashlib.blake2b(version, digest_size=8).digest(), "big", signed=True)


CONTENT_AT: Final = 24
"""The lower bits of a fingerprint, which tell copies of a file apart. The bits above are its content part."""
_COPY_BITS: Final = (1 << CONTENT_AT) - 1


def copy_of(content: int, copy: int) -> int:
    """Return the fingerprint of a version: the fingerprint of its content, and a number of which the lower bits tell copies apart.

    Versions of other content share a fingerprint as seldom as before. Two copies share it if those bits are equal: of two
    random numbers, with a probability of 6e-8. A million versions hold the content part of a new file with one of 1e-6.
    """
    return content ^ (copy & _COPY_BITS)


def content_part(fingerprint: int) -> int:
    """Return what all copies of a version have in common."""
    return fingerprint >> CONTENT_AT


class FileVersion(Protocol):
    """One content of one file: overwriting makes another version of the same key."""

    @property
    def modified(self) -> Moment:
        """The moment at which it was written, by the source; it may become visible much later (multipart uploads)."""

    @property
    def fingerprint(self) -> int:
        """A number that is equal for equal versions, whenever they are listed; made by `copy_of`."""

    @property
    def aliases(self) -> Sequence[int]:
        """The fingerprints under which it may have been recorded where other properties identify versions, or by older programs."""

    @property
    def key(self) -> str:
        """The key under which the source lists it; bytes that are no text are shown in hexadecimal."""

    @property
    def size(self) -> int:
        """The number of bytes."""

    @property
    def fault(self) -> str | None:
        """The reason why no event can name it; None: an event can."""

    def describe(self) -> JsonObject:
        """The version as an event names it."""


class ScanPage(Protocol):
    """A part of one scan, in key order; the pages of a scan never overlap."""

    @property
    def clock(self) -> Moment:
        """A moment, by the source's own clock, that is not later than the making of this page."""

    @property
    def is_clock_believed(self) -> bool:
        """Whether a horizon may follow `clock`: one that moves too far loses what is still to come."""

    @property
    def last(self) -> str | None:
        """The key to go on after; None when this page ends the scan."""

    def __len__(self) -> int:
        """The number of files it lists, selected or not."""

    def versions(self, since: Moment | None) -> Iterable[FileVersion]:
        """Return the versions that the watcher selects; those modified before `since` may be missing."""

    def fingerprints(self) -> Sequence[int]:
        """Return the fingerprints of all files it lists, in order; `NOT_SELECTED` for files that are not selected.

        Called at most once.
        """

    def moments(self) -> Sequence[Moment] | None:
        """Return the moments of the versions of `fingerprints`; None: what changes a moment makes another version."""

    def version(self, index: int, fingerprint: int) -> FileVersion:
        """Return the version at a place in `fingerprints`; `fingerprint` stands at that place."""
