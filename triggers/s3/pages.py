"""One page of ListObjectsV2, scanned as bytes.

A generic XML parser and a datetime per object are what makes listing slow; the scan of a page is one pass of a compiled
regular expression in C, and an object's fields are only looked into when somebody asks.
https://docs.aws.amazon.com/AmazonS3/latest/API/API_ListObjectsV2.html
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from operator import itemgetter
from typing import Final, TypeAlias
from urllib.parse import unquote_plus, unquote_to_bytes

from triggers.errors import SourceUnavailable
from triggers.file_scan.versions import SECOND, Moment, format_moment, parse_moment
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
    """Whether some of its objects come without an ETag."""

    @cached_property
    def signature(self) -> int:
        """A number that is equal, in this process, for pages that list the same. Never computed for long listings."""
        objects = self.body[self.body.find(b"<Contents>") : self.body.rfind(b"</Contents>")] if self.rows else b""
        return hash((objects, self.url_encoded, self.truncated))

    @property
    def last(self) -> str | None:
        """The key behind which the listing goes on; None when it ends here. Raises `S3Refused` if no key of the page is text."""
        if not self.truncated:
            return None
        if key_fault(self.rows[-1][0], url_encoded=self.url_encoded) is not None:
            first = shown_key(self.rows[0][0], url_encoded=self.url_encoded)
            raise S3Failure(
                code="NoText",
                message=f"{len(self.rows)} keys in a row, from {first} on, hold bytes that are not UTF-8, which S3 does not allow:"
                " no page can be asked for behind them",
                remedy="rename or delete these objects",
            ).error()
        return self.key(self.rows[-1])

    def key(self, row: Row) -> str:
        """The key of a row. Raises `SourceUnavailable`, as `decoded_key` does."""
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
    """Scan a response. Raises `SourceUnavailable` for a page that is not whole: the request may be retried."""
    truncated = _TRUNCATED.search(body)
    if b"<ListBucketResult" not in body or not body.rstrip().endswith(b"</ListBucketResult>") or truncated is None:
        raise SourceUnavailable(
            "the response is not a whole ListObjectsV2 page; check that endpoint_url is an S3 API and the network"
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
    """Return the rows up to the last one whose key is text, by which the next page is asked for; all rows if none is."""
    for end in range(len(rows), 0, -1):
        if key_fault(rows[end - 1][0], url_encoded=url_encoded) is None:
            return rows[:end]
    return rows


def _row(fields: bytes) -> Row:
    """Read an object's elements in whatever order they come."""
    matches = [field.search(fields) for field in _FIELDS]
    key, modified, etag, size = (b"" if match is None else match[1] for match in matches)
    if not (key and modified and size.isdigit()):
        raise SourceUnavailable(
            "a ListObjectsV2 page has an object without Key, LastModified or Size; check the S3 server"
        )
    return key, modified, etag, size


def decoded_key(raw: bytes, *, url_encoded: bool) -> str:
    """Decode a key as sent. Raises `SourceUnavailable` for a key that is not UTF-8, which S3 does not allow."""
    try:
        if not url_encoded:
            return html.unescape(raw.decode())
        return unquote_plus(raw.decode(), errors="strict") if b"%" in raw or b"+" in raw else raw.decode()
    except UnicodeDecodeError:
        raise SourceUnavailable(f"the server lists a key that is not UTF-8: {raw!r}; rename the object") from None


def key_bytes(raw: bytes, *, url_encoded: bool) -> bytes:
    """Return the bytes of any key, also of one that is no text."""
    if url_encoded:
        return unquote_to_bytes(raw.replace(b"+", b" "))
    return html.unescape(raw.decode(errors="surrogateescape")).encode(errors="surrogateescape")


def key_fault(raw: bytes, *, url_encoded: bool) -> str | None:
    """Why no event can name the key; None: one can."""
    if raw.isascii() and not (url_encoded and b"%" in raw):  # most keys
        return None
    try:
        decoded_key(raw, url_encoded=url_encoded)
    except SourceUnavailable:
        return "its key holds bytes that are not UTF-8, which S3 does not allow"
    return None


def shown_key(raw: bytes, *, url_encoded: bool) -> str:
    """The key; bytes that are no text are shown in hexadecimal."""
    return key_bytes(raw, url_encoded=url_encoded).decode(errors="backslashreplace")


def modified_at(stamp: bytes) -> Moment:
    """Parse a LastModified. A million objects share few minutes and few seconds: both are parsed once.

    Raises `SourceUnavailable`.
    """
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
    """Write a moment as S3 does, in milliseconds: `2026-11-20T09:00:00.000Z`."""
    seconds, fraction = divmod(moment, SECOND)
    return f"{format_moment(seconds * SECOND)[:-1]}.{fraction // 1000:03}Z".encode()


def usual_timestamp(stamp: bytes) -> bytes:
    """Write the same moment as S3 does, whatever the server sent."""
    return stamp if _is_usual(stamp) else timestamp(modified_at(stamp))


def is_whole_second(stamp: bytes) -> bool:
    """Whether a LastModified has the usual form, and no fraction of a second."""
    return len(stamp) == _USUAL_LENGTH and stamp.endswith(b".000Z")


def _is_usual(stamp: bytes) -> bool:
    return len(stamp) == _USUAL_LENGTH and stamp[-1] == _Z
