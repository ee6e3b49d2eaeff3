"""`s3.new_files`: new or updated objects under a prefix, each exactly once."""

from __future__ import annotations

import html
from collections.abc import AsyncGenerator, Iterator
from dataclasses import dataclass
from typing import ClassVar, Final
from urllib.parse import unquote, urlsplit

from pydantic import BaseModel, Field, field_validator

from triggers.base import Finding, JsonObject, JsonValue
from triggers.files.matching import Matcher
from triggers.files.moments import Moment, format_moment
from triggers.files.options import FileOptions
from triggers.files.trigger import NewFiles
from triggers.files.version import Page, fingerprint
from triggers.s3.failures import Refused
from triggers.s3.listing import MAX_KEYS, S3Client
from triggers.s3.pages import ListedPage, Row, modified_at, usual_timestamp

_SCHEMES: Final = frozenset({"s3", "s3a", "s3n"})


class S3NewFilesOptions(FileOptions):
    """`match` and `regex` see the key after the prefix."""

    bucket: str = Field(pattern=r"^[A-Za-z0-9._-]{3,255}$")
    """A bucket's name or an access point's alias."""
    prefix: str = ""
    directory_markers: bool = False
    notifications: None = None

    @field_validator("bucket")
    @classmethod
    def _lists_in_order(cls, value: str) -> str:
        if value.endswith("--x-s3"):
            raise ValueError(
                "directory buckets do not list in key order, so that new files would be missed; use another bucket"
            )
        return value

    @field_validator("notifications", mode="before")
    @classmethod
    def _not_yet(cls, value: object) -> None:
        if value is not None:
            raise ValueError(
                "notifications are not supported in this version; remove the key, files are found by polling"
            )


@dataclass(frozen=True, kw_only=True)
class S3Page:
    """A listed page as one watcher sees it."""

    listed: ListedPage
    clock: Moment
    options: S3NewFilesOptions
    matcher: Matcher

    @property
    def last(self) -> str | None:
        return self.listed.key(self.listed.rows[-1]) if self.listed.truncated else None

    def versions(self, since: Moment | None) -> Iterator[S3Object]:
        key_of, options, matches = self.listed.key, self.options, self.matcher
        bucket, min_size, markers, beyond_prefix = (
            options.bucket,
            options.min_size,
            options.directory_markers,
            len(options.prefix),
        )
        for row in self.listed.since(since):
            key, size = key_of(row), row[3]
            if min_size and int(size) < min_size:
                continue
            if size == b"0" and key.endswith("/") and not markers:
                continue
            if matches(key[beyond_prefix:]):
                yield S3Object(bucket, key, row)


class S3Object:
    """One version of one object. A plain class that reads its fields when asked: `strict` makes one per listed object."""

    __slots__ = ("_bucket", "_key", "_row")

    def __init__(self, bucket: str, key: str, row: Row) -> None:
        self._bucket = bucket
        self._key = key
        self._row = row

    @property
    def modified(self) -> Moment:
        return modified_at(self._row[1])

    @property
    def fingerprint(self) -> int:
        """Of key, time and ETag in one form, however a server writes them."""
        return fingerprint(b"%b\0%b\0%b" % (usual_timestamp(self._row[1]), self._etag, self._key.encode()))

    @property
    def _etag(self) -> bytes:
        """Without its quotes: AWS writes `&quot;`, servers in Go `&#34;`, others leave them bare."""
        etag = self._row[2]
        return etag[6:-6] if etag.startswith(b"&quot;") else html.unescape(etag.decode()).strip('"').encode()

    def describe(self) -> JsonObject:
        return {
            "bucket": self._bucket,
            "key": self._key,
            "size": int(self._row[3]),
            "etag": self._etag.decode(),
            "last_modified": format_moment(self.modified),
        }


class S3NewFiles(NewFiles[S3NewFilesOptions, S3Client]):
    """Exact iff no object becomes visible later than `lateness` after its LastModified; `mode: strict` has no such bound."""

    Options: ClassVar[type[BaseModel]] = S3NewFilesOptions
    connection_type: ClassVar[str | None] = "s3"

    @classmethod
    def defaults(cls, asset_uri: str) -> JsonObject:
        uri = urlsplit(asset_uri)
        if uri.scheme not in _SCHEMES or not uri.netloc:
            return {}
        return {"bucket": uri.netloc, "prefix": unquote(uri.path.removeprefix("/"))}

    async def check(self) -> list[Finding]:
        """One listed page shows that bucket, region, credentials and permission are right."""
        try:
            await self.client.list_page(self.options.bucket, prefix=self._listed_prefix, after=None, max_keys=1)
        except Refused as error:
            return [error.failure.finding("listing")]
        return [
            Finding(
                check="listing",
                level="ok",
                message=f"bucket {self.options.bucket!r} at {self.client.endpoint} is listed",
            )
        ]

    def source_identity(self) -> JsonValue:
        options = self.options
        return {
            "trigger": "s3.new_files",
            "endpoint": self.client.endpoint,
            "bucket": options.bucket,
            "prefix": options.prefix,
            "match": options.match,
            "regex": options.regex,
            "min_size": options.min_size,
        }

    async def pages(self, after: str | None) -> AsyncGenerator[Page, None]:
        matcher = self.options.matcher
        while True:
            listed, clock = await self.client.list_page(
                self.options.bucket, prefix=self._listed_prefix, after=after, max_keys=MAX_KEYS
            )
            page = S3Page(listed=listed, clock=clock, options=self.options, matcher=matcher)
            yield page
            if page.last is None:
                return
            after = page.last

    @property
    def _listed_prefix(self) -> str:
        """The fewest objects that hold all that can match."""
        return self.options.prefix + self.options.matcher.literal
