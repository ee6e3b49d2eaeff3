"""One page of ListObjectsV2, scanned as bytes, and its objects as one watcher sees them.

A generic XML parser and a datetime per object are what makes listing slow; the scan of a page is one pass of a compiled
regular expression in C, and an object's fields are only looked into when somebody asks.
https://docs.aws.amazon.com/AmazonS3/latest/API/API_ListObjectsV2.html
"""

from __future__ import annotations

import html
import re
from array import array
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from operator import itemgetter
from typing import Final, Generic, TypeAlias, TypeVar
from urllib.parse import unquote_plus, unquote_to_bytes

from triggers.base import JsonObject
from triggers.errors import SourceUnavailable
from triggers.file_scan.matching import Matcher
from triggers.file_scan.versions import NOT_SELECTED, SECOND, Moment, fingerprint, format_moment, parse_moment
from triggers.s3.clock import ClockReading
from triggers.s3.failures import S3Failure

Row: TypeAlias = tuple[bytes, bytes, bytes, bytes]
"""Key, LastModified, ETag and Size of one object, as sent."""

# The order in which AWS, MinIO, Ceph and moto write the elements. Possessive quantifiers: nothing here ever backtracks.
_ROW: Final = re.compile(
    rb"<Contents>\s*+<Key>([^<]*+)</Key>\s*+<LastModified>([^<]*+)</LastModified>\s*+<ETag>([^<]*+)</ETag>"
    rb"(?:\s*+<Checksum[^<]*+</[^>]*+>)*+\s*+<Size>([0-9]++)</Size>"
)
_OBJECT: Final = re.compile(rb"<Contents>(.*?)</Contents>", re.DOTALL)
_FIELDS: Final = [
    re.compile(rb"<%b>([^<]*)</%b>" % (name, name)) for name in (b"Key", b"LastModified", b"ETag", b"Size")
]
_TRUNCATED: Final = re.compile(rb"<IsTruncated>\s*(true|false)\s*</IsTruncated>")
_ETAG_OF_ROW: Final = itemgetter(2)
_USUAL_LENGTH: Final = len("2026-11-20T09:00:00.000Z")
_Z: Final = ord("Z")
_ENCODED: Final = re.compile(rb"<EncodingType>\s*url\s*</EncodingType>")


@dataclass(frozen=True, kw_only=True)
class ListedPage:
    """The objects of one page in the order of the listing. `truncated`: there are more behind the last one."""

    rows: list[Row]
    url_encoded: bool
    truncated: bool
    body: bytes = field(default=b"", repr=False)
    lacks_etags: bool = False
    """Some of its objects come without one."""

    @cached_property
    def signature(self) -> int:
        """In this process, equal for pages that list the same; nobody asks for it where a listing is long."""
        objects = self.body[self.body.find(b"<Contents>") : self.body.rfind(b"</Contents>")] if self.rows else b""
        return hash((objects, self.url_encoded, self.truncated))

    @property
    def last(self) -> str | None:
        """The key behind which the listing goes on; None when it ends here. Raises `S3Refused` if no key of the page is text."""
        if not self.truncated:
            return None
        if _key_fault(self.rows[-1][0], url_encoded=self.url_encoded) is not None:
            first = shown_key(self.rows[0][0], url_encoded=self.url_encoded)
            raise S3Failure(
                code="NoText",
                message=f"{len(self.rows)} keys in a row, from {first} on, hold bytes that are not UTF-8, which S3 does not allow:"
                " no page can be asked for behind them",
                remedy="rename or delete these objects",
            ).error()
        return self.key(self.rows[-1])

    def key(self, row: Row) -> str:
        """Raises `SourceUnavailable`, as `decoded_key` does."""
        return decoded_key(row[0], url_encoded=self.url_encoded)

    def key_bytes(self, row: Row) -> bytes:
        return key_bytes(row[0], url_encoded=self.url_encoded)

    def since(self, moment: Moment | None) -> Iterable[Row]:
        """The rows modified at `moment` or later, told apart by their bytes where these have the usual form."""
        if moment is None:
            return self.rows
        # The first timestamp in whole milliseconds that is not before `moment`.
        bound = timestamp(-(-moment // 1000) * 1000)
        return (row for row in self.rows if (row[1] >= bound if _is_usual(row[1]) else modified_at(row[1]) >= moment))


def scan_page(body: bytes) -> ListedPage:
    """Raises `SourceUnavailable` for a page that is not whole: it may be asked for again."""
    truncated = _TRUNCATED.search(body)
    if b"<ListBucketResult" not in body or not body.rstrip().endswith(b"</ListBucketResult>") or truncated is None:
        raise SourceUnavailable(
            "the answer is no whole ListObjectsV2 page; check that endpoint_url is an S3 API and the network"
        )
    count = body.count(b"<Contents>")
    rows = _ROW.findall(body)
    if len(rows) != count:
        rows = [_row(fields) for fields in _OBJECT.findall(body)]
    if len(rows) != count:
        raise SourceUnavailable(
            f"a ListObjectsV2 page names {count} objects but describes {len(rows)}; check the S3 server"
        )
    url_encoded, is_truncated = _ENCODED.search(body) is not None, truncated[1] == b"true"
    if is_truncated:
        rows = _up_to_text(rows, url_encoded=url_encoded)
    return ListedPage(
        rows=rows,
        url_encoded=url_encoded,
        truncated=is_truncated,
        body=body,
        lacks_etags=b"" in map(_ETAG_OF_ROW, rows),
    )


def _up_to_text(rows: list[Row], *, url_encoded: bool) -> list[Row]:
    """The next page is asked for by the key of the last row, which must be text. All of them if none is."""
    for end in range(len(rows), 0, -1):
        if _key_fault(rows[end - 1][0], url_encoded=url_encoded) is None:
            return rows[:end]
    return rows


def _row(fields: bytes) -> Row:
    """Whatever the order of the elements."""
    matches = [field.search(fields) for field in _FIELDS]
    key, modified, etag, size = (b"" if match is None else match[1] for match in matches)
    if not (key and modified and size.isdigit()):
        raise SourceUnavailable(
            "a ListObjectsV2 page has an object without Key, LastModified or Size; check the S3 server"
        )
    return key, modified, etag, size


def decoded_key(raw: bytes, *, url_encoded: bool) -> str:
    """Raises `SourceUnavailable` for a key that is not UTF-8, which S3 does not allow."""
    try:
        if not url_encoded:
            return html.unescape(raw.decode())
        return unquote_plus(raw.decode(), errors="strict") if b"%" in raw or b"+" in raw else raw.decode()
    except UnicodeDecodeError:
        raise SourceUnavailable(f"the server lists a key that is not UTF-8: {raw!r}; rename the object") from None


def key_bytes(raw: bytes, *, url_encoded: bool) -> bytes:
    """Of any key, also one that is no text."""
    if url_encoded:
        return unquote_to_bytes(raw.replace(b"+", b" "))
    return html.unescape(raw.decode(errors="surrogateescape")).encode(errors="surrogateescape")


def _key_fault(raw: bytes, *, url_encoded: bool) -> str | None:
    try:
        decoded_key(raw, url_encoded=url_encoded)
    except SourceUnavailable:
        return "its key holds bytes that are not UTF-8, which S3 does not allow"
    return None


def shown_key(raw: bytes, *, url_encoded: bool) -> str:
    """The key; bytes that are no text are shown in hexadecimal."""
    return key_bytes(raw, url_encoded=url_encoded).decode(errors="backslashreplace")


def modified_at(stamp: bytes) -> Moment:
    """A million objects share few minutes and few seconds: both are parsed once. Raises `SourceUnavailable`."""
    return _minute(stamp[:16]) + _seconds(stamp[16:])


@lru_cache(maxsize=2**16)
def _minute(stamp: bytes) -> Moment:
    return _parsed(b"%bZ", stamp)


@lru_cache(maxsize=2**12)
def _seconds(stamp: bytes) -> int:
    return _parsed(b"1970-01-01T00:00%b", stamp)


def _parsed(form: bytes, stamp: bytes) -> Moment:
    try:
        return parse_moment((form % stamp).decode())
    except ValueError:
        raise SourceUnavailable(f"the server sent {stamp!r} where a LastModified is due; check the S3 server") from None


def timestamp(moment: Moment) -> bytes:
    """As S3 writes it, in milliseconds: `2026-11-20T09:00:00.000Z`."""
    seconds, fraction = divmod(moment, SECOND)
    return f"{format_moment(seconds * SECOND)[:-1]}.{fraction // 1000:03}Z".encode()


def usual_timestamp(stamp: bytes) -> bytes:
    """The same moment as S3 writes it, whatever the server."""
    return stamp if _is_usual(stamp) else timestamp(modified_at(stamp))


def _is_usual(stamp: bytes) -> bool:
    return len(stamp) == _USUAL_LENGTH and stamp[-1] == _Z


@dataclass(frozen=True, kw_only=True)
class Selection:
    """What a watcher wants of a bucket."""

    bucket: str
    prefix: str
    matcher: Matcher
    min_size: int
    directory_markers: bool

    def may_want(self, key: str) -> bool:
        return key.startswith(self.prefix) and self.matcher(key[len(self.prefix) :])

    def fingerprint(self, row: Row, *, url_encoded: bool) -> int:
        """Of key, time and ETag in one form, however a server writes them; `NOT_SELECTED` when it is not wanted.

        Where there is no ETag the size takes its place.
        """
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
        return fingerprint(b"%b\0%b\0%b" % (usual_timestamp(modified), _bare(etag) or size, encoded))


class S3Object:
    """One version of one object. A plain class whose fields are read when it is emitted: a first scan makes very many."""

    __slots__ = ("_bucket", "_row", "_url_encoded", "fingerprint", "modified")

    def __init__(self, row: Row, fingerprint: int, *, bucket: str, url_encoded: bool) -> None:
        self.fingerprint = fingerprint
        self.modified = modified_at(row[1])
        self._bucket = bucket
        self._row = row
        self._url_encoded = url_encoded

    @property
    def key(self) -> str:
        return shown_key(self._row[0], url_encoded=self._url_encoded)

    @property
    def fault(self) -> str | None:
        return _key_fault(self._row[0], url_encoded=self._url_encoded)

    def describe(self) -> JsonObject:
        key, _, etag, size = self._row
        return {
            "bucket": self._bucket,
            "key": decoded_key(key, url_encoded=self._url_encoded),
            "size": int(size),
            "etag": _bare(etag).decode(),
            "last_modified": format_moment(self.modified),
        }


RowT = TypeVar("RowT", bound=Hashable)


class _Listing:
    """16 bytes per row, in the order of the listing."""

    def __init__(self) -> None:
        self.hashes = array("q")
        self.fingerprints = array("q")


class FingerprintCache(Generic[RowT]):
    """The fingerprints of a whole listing, computed only for the rows that changed since the listing before.

    A fingerprint that outlives the process costs a microsecond, a million of them more than the listing itself; Python's
    own hash of a row of bytes is made in C, and says as well that nothing changed since the last look of the same
    process. A row that is not met again costs the time to compute its fingerprint, nothing else.
    """

    def __init__(self) -> None:
        self._before = _Listing()
        self._now = _Listing()
        self._at = 0
        """Where in the listing before we are: both are in key order."""

    def begin(self) -> None:
        """A new scan starts; rows are looked up in what the last one listed."""
        self._before, self._now, self._at = self._now, _Listing(), 0

    def fingerprints(self, rows: Sequence[RowT], compute: Callable[[RowT], int]) -> Sequence[int]:
        """What `compute` says of each of the next rows of this scan."""
        hashes = array("q", map(hash, rows))
        fingerprints = self._as_before(hashes) or self._looked_up(hashes, rows, compute)
        self._now.hashes.extend(hashes)
        self._now.fingerprints.extend(fingerprints)
        return fingerprints

    def _as_before(self, hashes: array[int]) -> array[int] | None:
        """None unless the next rows are exactly the next ones of the listing before: most pages, most of the time."""
        ahead = slice(self._at, self._at + len(hashes))
        if self._before.hashes[ahead] != hashes:
            return None
        self._at = ahead.stop
        return self._before.fingerprints[ahead]

    def _looked_up(self, hashes: array[int], rows: Sequence[RowT], compute: Callable[[RowT], int]) -> array[int]:
        """Finds its place again after as many deleted rows as these are; after more, the rest is computed once."""
        before, start = self._before, self._at
        ahead = slice(start, start + 2 * len(hashes))
        known = dict(zip(before.hashes[ahead], before.fingerprints[ahead], strict=True))
        last = next(filter(known.__contains__, reversed(hashes)), None)
        if last is not None:
            self._at = before.hashes.index(last, start) + 1
        return array("q", (known[key] if key in known else compute(row) for key, row in zip(hashes, rows, strict=True)))


@dataclass(frozen=True, kw_only=True)
class S3Page:
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

    def version(self, index: int, fingerprint: int) -> S3Object:
        return self._object(self.listed.rows[index], fingerprint)

    def _fingerprint(self, row: Row) -> int:
        return self.selection.fingerprint(row, url_encoded=self.listed.url_encoded)

    def _object(self, row: Row, fingerprint: int) -> S3Object:
        return S3Object(row, fingerprint, bucket=self.selection.bucket, url_encoded=self.listed.url_encoded)


def _bare(etag: bytes) -> bytes:
    """Without its quotes: AWS writes `&quot;`, servers in Go `&#34;`, others leave them bare."""
    return etag[6:-6] if etag.startswith(b"&quot;") else html.unescape(etag.decode()).strip('"').encode()
