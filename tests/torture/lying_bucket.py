"""A bucket behind a server whose listings lie, and what programs and people do to it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Hashable
from dataclasses import dataclass, field
from hashlib import md5
from random import Random
from typing import Any, Final
from uuid import uuid4

import urllib3

from tests.faulty_s3 import FaultyS3
from tests.servers import S3Server
from triggers.base import BaseEventTrigger, TriggerContext
from triggers.s3.listing import S3Client
from triggers.s3.new_files import S3NewFiles, S3NewFilesOptions

_HTTP: Final = urllib3.PoolManager()
_HEADERS: Final = {"Authorization": "AWS4-HMAC-SHA256 Credential=a/20260101/us-east-1/s3/aws4_request"}
"""The server wants a signature and does not look at it."""
_ROW: Final = re.compile(rb"<Contents><Key>(.*?)</Key>.*?</Contents>", re.DOTALL)


@dataclass(kw_only=True)
class Bucket:
    """A bucket behind a server whose listings end too early, or are empty, without a sign."""

    server: S3Server
    client: S3Client
    name: str
    front: FaultyS3
    moved_in: Counter[Hashable] = field(default_factory=Counter)
    copies: int = 0
    moved_out: dict[str, bytes] = field(default_factory=dict)
    ends_before: bytes | None = None
    """Listings end before this key, without a sign; None: they are whole."""

    def __post_init__(self) -> None:
        self.front.page, self.front.content = self._cut, lambda: (self.name, self._writes)
        self._writes = 0
        self._objects: dict[str, bytes] = {}

    def _cut(self, page: bytes) -> bytes:
        if self.ends_before is None:
            return page
        rows = _ROW.finditer(page)
        hidden = {row[0] for row in rows if row[1] >= self.ends_before}
        for row in hidden:
            page = page.replace(row, b"")
        return page.replace(b"<IsTruncated>true<", b"<IsTruncated>false<") if hidden else page

    @property
    def is_lost(self) -> bool:
        return self.ends_before == b""

    @property
    def is_whole(self) -> bool:
        return self.ends_before is None

    def trigger(self, mode: str, match: str | None) -> BaseEventTrigger[Any, Any]:
        options = {"bucket": self.name, "mode": mode, "match": match, "start": "all", "interval": "1ms"}
        context = TriggerContext(watcher="w", is_alone=True)
        return S3NewFiles(S3NewFilesOptions.model_validate(options), self.client, context)

    def happen(self, dice: Random) -> None:
        keys = sorted(self._objects)
        match dice.randrange(11):
            case 0 if self.ends_before is None:
                self.ends_before = dice.choice([b"", dice.choice([*keys, ""]).encode()])
            case 0 | 1:
                self.heal()
            case 2 if keys:
                self._put(dice.choice(keys), uuid4().bytes)
            case 3 if keys:
                self._delete(dice.choice(keys))
            case 4 if keys:
                key = dice.choice(keys)
                self.moved_out[key] = self._delete(key)
            case 5 if self.moved_out:
                self._put_again(*self.moved_out.popitem())
            case 6 if keys and dice.random() < 0.5:
                few_or_all = dice.choice([keys[:3], keys, keys])
                self.copies += 1
                for key in few_or_all:
                    self._put_again(key, self._objects[key])
            case _:
                for _ in range(dice.choice([1, 1, 12])):
                    self._put(f"{uuid4().hex}.csv", uuid4().bytes)

    def _put(self, key: str, body: bytes) -> None:
        self._objects[key] = body
        self._request("PUT", key, body)

    def _put_again(self, key: str, body: bytes) -> None:
        """Put the same content: as a bucket that is restored, or copied in place, has it."""
        self._put(key, body)
        self.moved_in[_version(key, body)] += 1

    def _delete(self, key: str) -> bytes:
        self._request("DELETE", key)
        return self._objects.pop(key)

    def _request(self, method: str, key: str, body: bytes | None = None) -> None:
        """Ask the server itself, which takes a tenth of the time of a client of all of S3."""
        self._writes += 1
        response = _HTTP.request(method, f"{self.server.endpoint}/{self.name}/{key}", body=body, headers=_HEADERS)
        assert response.status in {200, 204}, response.data

    def heal(self) -> None:
        self.ends_before = None

    def listed(self) -> set[Hashable]:
        return {_version(key, body) for key, body in self._objects.items()}

    def named(self, file: dict[str, Any]) -> Hashable:
        return file["key"], file["etag"]

    def content(self, version: Hashable) -> Hashable:
        return version

    def close(self) -> None:
        """Ask the server for what it lists: it is what the history was judged by."""
        pages = self.server.client.get_paginator("list_objects_v2").paginate(Bucket=self.name)
        rows = [row for page in pages for row in page.get("Contents", ())]
        assert {(row["Key"], row["ETag"].strip('"')) for row in rows} == self.listed()


def _version(key: str, body: bytes) -> Hashable:
    return key, md5(body, usedforsecurity=False).hexdigest()
