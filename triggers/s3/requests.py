"""Signed GET requests for a bucket: signed by botocore, sent by aiohttp."""

from __future__ import annotations

import os
import time
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import Final, TypeAlias
from urllib.parse import quote, urlencode

import aiohttp
import anyio
from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from yarl import URL

from triggers.s3.aws import BucketAddresses, CredentialSource, S3Settings
from triggers.s3.failures import REMEDIES_OF_READING, S3Failure, failure_of, region_hint

Headers: TypeAlias = Mapping[str, str]

SIGNED_FOR: Final = 180.0
"""Seconds for which a repeated request keeps its signature; servers accept one for minutes."""
AT_A_TIME: Final = 50
"""The most requests at a time for one bucket, which may be slow: other buckets have connections of their own."""


@dataclass(frozen=True, kw_only=True)
class _Signed:
    url: URL
    headers: Headers
    proxy: str | None
    at: float
    """The time that was signed, in seconds since 1970."""

    @property
    def is_fresh(self) -> bool:
        return 0 <= time.time() - self.at < SIGNED_FOR


class BucketRequests:
    """The requests of one connection: its credentials, and the region of each bucket. An anonymous connection signs nothing."""

    def __init__(
        self, connection: S3Settings, http: aiohttp.ClientSession, credentials: CredentialSource | None
    ) -> None:
        self.addresses = BucketAddresses(connection)
        self._endpoint = connection.endpoint_url or "AWS"
        self._http = http
        self._credentials = credentials
        self._requester_pays = connection.requester_pays
        self._regions: dict[str, str] = {}
        self._limits = defaultdict[str, anyio.Semaphore](lambda: anyio.Semaphore(AT_A_TIME, fast_acquire=True))
        self._repeated: dict[tuple[object, ...], _Signed] = {}

    async def get(
        self, bucket: str, query: Mapping[str, str], document: bytes, *, is_repeated: bool = False
    ) -> tuple[Headers, bytes]:
        """Return the headers and body of a response that holds `document`. Retried in the bucket's region if a server names it.

        `is_repeated`: the same request will be sent again soon. Raises `S3Refused` or `SourceUnavailable`.
        """
        for _ in range(2):
            status, headers, body = await self._get(bucket, "", query, is_repeated=is_repeated)
            if status == HTTPStatus.OK and document in body:
                return headers, body
            if not self._knows_better(bucket, headers, body):
                break
        raise self._failure(bucket, status, body).error()

    async def read(self, bucket: str, key: str, most: int) -> tuple[Headers, bytes]:
        """Return the headers and the content of an object, or `most` + 1 bytes of a larger one.

        Raises `S3Refused`, with the code `NoSuchKey` if there is none, or `SourceUnavailable`.
        """
        for _ in range(2):
            status, headers, body = await self._get(bucket, key, {}, most=most)
            if status == HTTPStatus.OK:
                return headers, body
            if not self._knows_better(bucket, headers, body):
                break
        failure = self._failure(bucket, status, body)
        raise replace(failure, remedy=REMEDIES_OF_READING.get(failure.code, failure.remedy)).error()

    def _knows_better(self, bucket: str, headers: Headers, body: bytes) -> bool:
        """Whether the response names another region of the bucket than the one that was asked, to retry there."""
        hint = region_hint(header=headers.get("x-amz-bucket-region"), body=body)
        if hint is None or hint == self._regions.get(bucket):
            return False
        self._regions[bucket] = hint
        self._forget(bucket)
        return True

    def _failure(self, bucket: str, status: int, body: bytes) -> S3Failure:
        failure = failure_of(status=status, body=body, bucket=bucket, endpoint=self._endpoint)
        self._forget(bucket)
        if failure.code == "ExpiredToken" and self._credentials is not None:
            self._credentials.forget()
        return failure

    async def _get(
        self, bucket: str, key: str, query: Mapping[str, str], *, is_repeated: bool = False, most: int | None = None
    ) -> tuple[int, Headers, bytes]:
        async with self._limits[bucket]:
            signed = await self._signed(bucket, key, query, is_repeated=is_repeated)
            try:
                async with self._http.get(
                    signed.url, headers=signed.headers, proxy=signed.proxy, allow_redirects=False
                ) as response:
                    return response.status, response.headers, await _body(response, most)
            except (aiohttp.ClientError, TimeoutError) as error:
                raise self._unreachable(error).error() from error

    def _unreachable(self, error: Exception) -> S3Failure:
        remedy, passing = "check the connection's endpoint_url and the network", True
        if isinstance(error, aiohttp.ClientSSLError):
            remedy, passing = "set SSL_CERT_FILE to the server's CA, or correct endpoint_url", False
        message = f"{self._endpoint} could not be reached ({_why(error)})"
        return S3Failure(code="Unreachable", message=message, remedy=remedy, passing=passing)

    async def _signed(self, bucket: str, key: str, query: Mapping[str, str], *, is_repeated: bool) -> _Signed:
        request = (bucket, *query.items())
        if is_repeated and (known := self._repeated.get(request)) is not None and known.is_fresh:
            return known
        address = await self.addresses.address_of(bucket, self._regions.get(bucket))
        url, at = (
            f"{address.url}?{_encoded(query)}" if query else f"{address.url.rstrip('/')}/{quote(key)}",
            time.time(),
        )
        headers = await self._headers(url, address.region)
        signed = _Signed(url=URL(url, encoded=True), headers=headers, proxy=address.proxy, at=at)
        if is_repeated:
            self._repeated[request] = signed
        return signed

    async def _headers(self, url: str, region: str) -> Headers:
        headers = {"x-amz-request-payer": "requester"} if self._requester_pays else {}
        if self._credentials is None:
            return headers
        request = AWSRequest(method="GET", url=url, headers=headers)
        S3SigV4Auth(await self._credentials.current(), "s3", region).add_auth(request)
        return dict(request.headers.items())

    def _forget(self, bucket: str) -> None:
        """Sign the bucket's requests anew: the signature may be what the server refuses."""
        self._repeated = {key: signed for key, signed in self._repeated.items() if key[0] != bucket}


def _why(error: Exception) -> str:
    """Return why no server answered, as the operating system says it where that decides."""
    if isinstance(error, aiohttp.ClientConnectorError) and not isinstance(error, aiohttp.ClientSSLError):
        number = error.os_error.errno
        if number is not None and number > 0:
            return os.strerror(number)
        return error.os_error.strerror or str(error)
    return str(error) or "no response in time"


async def _body(response: aiohttp.ClientResponse, most: int | None) -> bytes:
    """Return the body of a response, or `most` + 1 bytes of a larger one; None: all of it."""
    if most is None:
        return await response.read()
    content = bytearray()
    async for chunk in response.content.iter_chunked(2**16):
        content += chunk
        if len(content) > most:
            break
    return bytes(content[: most + 1])


def _encoded(query: Mapping[str, str]) -> str:
    """Encode a query as Signature Version 4 wants it: sorted, all but unreserved characters percent-encoded."""
    return urlencode(sorted(query.items()), quote_via=quote)
