"""The objects of a page as one watcher sees them: which it selects, and their fingerprints."""

from __future__ import annotations

import html
from array import array
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from triggers.base import JsonObject
from triggers.errors import SourceUnavailable
from triggers.file_scan.matching import Matcher
from triggers.file_scan.versions import NOT_SELECTED, SECOND, Moment, copy_of, fingerprint, format_moment
from triggers.s3.clock import ClockReading
from triggers.s3.pages import (
    ListedPage,
    Row,
    decoded_key,
    is_whole_second,
    key_bytes,
    key_fault,
    modified_at,
    shown_key,
    usual_timestamp,
)


@dataclass(frozen=True, kw_only=True)
class Selection:
    """The objects of a bucket that a watcher selects."""

    bucket: str
    prefix: str
    matcher: Matcher
    min_size: int
    directory_markers: bool

    def may_want(self, key: str) -> bool:
        return key.startswith(self.prefix) and self.matcher(key[len(self.prefix) :])

    def fingerprint(self, row: Row, *, url_encoded: bool) -> int:
        """The fingerprint of key, size, ETag and time, however a server writes them; `NOT_SELECTED` for other objects."""
        key, modified, etag, size = row
        if self.min_size and int(size) < self.min_size:
            return NOT_SELECTED
        try:
            name = decoded_key(key, url_encoded=url_encoded)
            encoded = name.encode()
        except SourceUnavailable:
            name, encoded = shown_key(key, url_encoded=url_encoded), key_bytes(key, url_encoded=url_encoded)
        if size == b"0" and name.endswith("/") and not self.directory_markers:
            return NOT_SELECTED
        if not self.matcher(name[len(self.prefix) :]):
            return NOT_SELECTED
        content = fingerprint(b"%b\0%b\0%b" % (size, bare_etag(etag), encoded))
        return copy_of(content, _time_bits(modified_at(modified)))


class S3Object:
    """One version of one object. Its fields are read only when it is emitted, since a first scan makes very many."""

    __slots__ = ("_row", "_url_encoded", "bucket", "fingerprint", "modified")

    def __init__(self, row: Row, fingerprint: int, *, bucket: str, url_encoded: bool) -> None:
        self.fingerprint = fingerprint
        self.modified = modified_at(row[1])
        self.bucket = bucket
        self._row = row
        self._url_encoded = url_encoded

    @property
    def aliases(self) -> Sequence[int]:
        """Return the fingerprint of format 2. The size took the place of an ETag that is missing."""
        key, modified, etag, size = self._row
        named = (usual_timestamp(modified), bare_etag(etag) or size, key_bytes(key, url_encoded=self._url_encoded))
        return (fingerprint(b"%b\0%b\0%b" % named),)

    @property
    def key(self) -> str:
        return shown_key(self._row[0], url_encoded=self._url_encoded)

    @property
    def size(self) -> int:
        return int(self._row[3])

    @property
    def etag(self) -> bytes:
        """The ETag without its quotes; b'' if the server lists none."""
        return bare_etag(self._row[2])

    @property
    def fault(self) -> str | None:
        return key_fault(self._row[0], url_encoded=self._url_encoded)

    def describe(self) -> JsonObject:
        key, modified, _, size = self._row
        is_whole = is_whole_second(modified)
        return {
            "bucket": self.bucket,
            "key": decoded_key(key, url_encoded=self._url_encoded),
            "size": int(size),
            "etag": self.etag.decode(),
            "last_modified": f"{modified[:19].decode()}Z" if is_whole else format_moment(self.modified),
        }


RowT = TypeVar("RowT", bound=Hashable)


class _Rows:
    """The hashes and fingerprints of a listing's rows, in its order: 16 bytes per row."""

    def __init__(self) -> None:
        self.hashes = array("q")
        self.fingerprints = array("q")


class FingerprintCache(Generic[RowT]):
    """The fingerprints of a whole listing, computed only for the rows that changed since the listing before.

    A fingerprint that outlives the process costs a microsecond, a million of them more than the listing itself; Python's
    own hash of a row of bytes is made in C, and shows as well that nothing changed since the last scan of the same
    process. A row that is not met again costs the time to compute its fingerprint, nothing else.
    """

    def __init__(self) -> None:
        self._before = _Rows()
        self._now = _Rows()
        self._at = 0
        """The place in the listing before at which the next rows are expected; both listings are in key order."""

    def begin(self) -> None:
        """Begin a new scan, whose rows are looked up in the listing of the last one."""
        self._before, self._now, self._at = self._now, _Rows(), 0

    def fingerprints(self, rows: Sequence[RowT], compute: Callable[[RowT], int]) -> Sequence[int]:
        """Return what `compute` gives for each of the next rows of this scan."""
        hashes = array("q", map(hash, rows))
        fingerprints = self._as_before(hashes) or self._looked_up(hashes, rows, compute)
        self._now.hashes.extend(hashes)
        self._now.fingerprints.extend(fingerprints)
        return fingerprints

    def _as_before(self, hashes: array[int]) -> array[int] | None:
        """Return the fingerprints of before if the next rows are exactly the next ones of the listing before, else None.

        Most pages are, most of the time.
        """
        ahead = slice(self._at, self._at + len(hashes))
        if self._before.hashes[ahead] != hashes:
            return None
        self._at = ahead.stop
        return self._before.fingerprints[ahead]

    def _looked_up(self, hashes: array[int], rows: Sequence[RowT], compute: Callable[[RowT], int]) -> array[int]:
        """Find the place again after at most as many deleted rows as these are; after more, the rest is computed once."""
        before, start = self._before, self._at
        ahead = slice(start, start + 2 * len(hashes))
        known = dict(zip(before.hashes[ahead], before.fingerprints[ahead], strict=True))
        last = next(filter(known.__contains__, reversed(hashes)), None)
        if last is not None:
            self._at = before.hashes.index(last, start) + 1
        return array("q", (known[key] if key in known else compute(row) for key, row in zip(hashes, rows, strict=True)))


@dataclass(frozen=True, kw_only=True)
class S3Page:
    """A page of a listing as one watcher sees it."""

    listed: ListedPage
    reading: ClockReading
    selection: Selection
    cache: FingerprintCache[Row]

    @property
    def clock(self) -> Moment:
        return self.reading.moment

    @property
    def is_clock_believed(self) -> bool:
        return self.reading.is_believed

    @property
    def last(self) -> str | None:
        return self.listed.last

    def __len__(self) -> int:
        return len(self.listed.rows)

    def versions(self, since: Moment | None) -> Iterator[S3Object]:
        for row in self.listed.since(since):
            fingerprint = self._fingerprint(row)
            if fingerprint != NOT_SELECTED:
                yield self._object(row, fingerprint)

    def fingerprints(self) -> Sequence[int]:
        return self.cache.fingerprints(self.listed.rows, self._fingerprint)

    def moments(self) -> None:
        return None

    def version(self, index: int, fingerprint: int) -> S3Object:
        return self._object(self.listed.rows[index], fingerprint)

    def _fingerprint(self, row: Row) -> int:
        return self.selection.fingerprint(row, url_encoded=self.listed.url_encoded)

    def _object(self, row: Row, fingerprint: int) -> S3Object:
        return S3Object(row, fingerprint, bucket=self.selection.bucket, url_encoded=self.listed.url_encoded)


def _time_bits(modified: Moment) -> int:
    """Bits that differ for objects of one key and content that were written within half a year, at whole seconds as at AWS."""
    seconds, fraction = divmod(modified, SECOND)
    return seconds + fraction // 1000 * 7919


def bare_etag(etag: bytes) -> bytes:
    """The ETag without its quotes: AWS writes `&quot;`, servers in Go `&#34;`, others leave them bare."""
    return etag[6:-6] if etag.startswith(b"&quot;") else html.unescape(etag.decode()).strip('"').encode()
