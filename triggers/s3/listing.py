"""ListObjectsV2 over HTTP: signed by botocore, fetched by aiohttp, scanned as bytes."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from functools import partial
from typing import Final
from urllib.parse import quote

import aiohttp
import anyio
import stamina
from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from yarl import URL

from triggers.errors import SourceUnavailable, TriggerError
from triggers.file_scan.versions import Moment, moment_of
from triggers.s3.addresses import Addresses
from triggers.s3.credentials import CredentialSource
from triggers.s3.failures import Failure, failure_of, region_hint
from triggers.s3.pages import ListedPage, scan_page
from triggers.s3.queue import Queues
from triggers.s3.shared import DatedPage, SharedListing

MAX_KEYS: Final = 1000
"""The most S3 gives."""

_LOOK_UPS_AT_A_TIME: Final = 10
_OK: Final = 200
_retrying: Final = stamina.AsyncRetryingCaller(
    attempts=5, timeout=60.0, wait_initial=0.2, wait_max=10.0, wait_jitter=0.5
).on(SourceUnavailable)


@dataclass(frozen=True, kw_only=True)
class Response:
    """What a server responded; `date` is its clock, None if it sent none that can be read."""

    status: int
    date: Moment | None
    region: str | None
    body: bytes

    def holds(self, document: bytes) -> bool:
        return self.status == _OK and document in self.body


@dataclass(eq=False, kw_only=True)
class S3Client:
    """What all triggers of one connection share: HTTP connections, credentials, and which bucket lives in which region."""

    http: aiohttp.ClientSession
    addresses: Addresses
    credentials: CredentialSource | None
    """None: requests are not signed."""
    requester_pays: bool
    queues: Queues
    _regions: dict[str, str] = field(default_factory=dict, init=False)
    _listings: dict[tuple[str, str], SharedListing] = field(default_factory=dict, init=False)

    @property
    def endpoint(self) -> str:
        """For people, and for the identity of a position."""
        return self.addresses.endpoint_url or "AWS"

    def listing(self, bucket: str, prefix: str) -> SharedListing:
        """The same for all who ask for it."""
        if (bucket, prefix) not in self._listings:
            fetch = partial(self.list_page, bucket, prefix)
            self._listings[bucket, prefix] = SharedListing(fetch)
        return self._listings[bucket, prefix]

    async def list_page(self, bucket: str, prefix: str, after: str | None, *, max_keys: int | None = None) -> DatedPage:
        """The first `max_keys` objects behind `after`, and the server's clock before they were listed.

        Throttling, passing faults and broken pages are tried again with backoff. Raises `Refused` or `SourceUnavailable`.
        """
        return await _retrying(self._list_page, bucket, prefix, after, max_keys or MAX_KEYS)

    async def _list_page(self, bucket: str, prefix: str, after: str | None, max_keys: int) -> DatedPage:
        query = {"encoding-type": "url", "list-type": "2", "max-keys": str(max_keys), "prefix": prefix}
        if after is not None:
            query["start-after"] = after
        response = await self._request(bucket, query, b"<ListBucketResult")
        if response.date is None:
            raise Failure(
                code="NoDate",
                message=f"{self.endpoint} sends no Date header, the only clock that counts here",
                remedy="check endpoint_url, or the proxy in front of it",
            ).error()
        page = scan_page(response.body)
        self._check_order(page, after)
        return page, response.date

    async def look_up(self, bucket: str, keys: Collection[str]) -> Sequence[DatedPage]:
        """A page for each of the keys that there is, listed as all others are, with that object alone. Raises as `list_page`."""
        pages: list[DatedPage] = []
        failures: list[TriggerError] = []
        limit = anyio.Semaphore(_LOOK_UPS_AT_A_TIME)

        async def look_up(key: str) -> None:
            async with limit:
                try:
                    page, clock = await self.list_page(bucket, key, None, max_keys=1)
                    if page.rows and page.key(page.rows[0]) == key:
                        pages.append((page, clock))
                except TriggerError as error:  # raised from here it would come as a group
                    failures.append(error)

        async with anyio.create_task_group() as tasks:
            for key in keys:
                tasks.start_soon(look_up, key)
        if failures:
            raise failures[0]
        return pages

    async def lifecycle(self, bucket: str) -> bytes:
        """The document of GetBucketLifecycleConfiguration. Raises `Refused`, also where there is none, or `SourceUnavailable`."""
        return (await self._request(bucket, {"lifecycle": ""}, b"<LifecycleConfiguration")).body

    def _check_order(self, page: ListedPage, after: str | None) -> None:
        """Resuming by key needs a listing in key order (by UTF-8, which is by code point)."""
        if page.truncated and not page.rows:
            raise SourceUnavailable("the server says that a listing goes on but lists nothing; check the S3 server")
        keys = [page.key(row) for row in (*page.rows[:1], *page.rows[-1:])]
        if any(key <= (after or "") for key in keys) or keys != sorted(keys):
            raise Failure(
                code="OutOfOrder",
                message=f"{self.endpoint} does not list its keys in order, so that new ones can be missed",
                remedy="use a general purpose bucket; directory buckets are not supported",
            ).error()

    async def _request(self, bucket: str, query: Mapping[str, str], document: bytes) -> Response:
        """A response with the document that starts with `document`; asked again where the bucket lives when a server tells."""
        response = await self._get(bucket, query)
        if response.holds(document):
            return response
        hint = region_hint(header=response.region, body=response.body)
        if hint is not None and hint != self._regions.get(bucket):
            self._regions[bucket] = hint
            response = await self._get(bucket, query)
            if response.holds(document):
                return response
        failure = failure_of(status=response.status, body=response.body, bucket=bucket, endpoint=self.endpoint)
        if failure.code == "ExpiredToken" and self.credentials is not None:
            self.credentials.forget()
        raise failure.error()

    async def _get(self, bucket: str, query: Mapping[str, str]) -> Response:
        address = await self.addresses.of(bucket, self._regions.get(bucket))
        url = f"{address.url}?{_encoded(query)}"
        headers = await self._signed(url, address.region)
        try:
            async with self.http.get(
                URL(url, encoded=True), headers=headers, proxy=address.proxy, allow_redirects=False
            ) as response:
                body = await response.read()
        except aiohttp.ClientSSLError as error:
            raise self._unreachable(
                error, "set SSL_CERT_FILE to the server's CA, or correct endpoint_url", passing=False
            ) from error
        except (aiohttp.ClientError, TimeoutError) as error:
            raise self._unreachable(
                error, "check the connection's endpoint_url and the network", passing=True
            ) from error
        return Response(
            status=response.status,
            date=_moment(response.headers.get("Date")),
            region=response.headers.get("x-amz-bucket-region"),
            body=body,
        )

    async def _signed(self, url: str, region: str) -> dict[str, str]:
        headers = {"x-amz-request-payer": "requester"} if self.requester_pays else {}
        if self.credentials is None:
            return headers
        request = AWSRequest(method="GET", url=url, headers=headers)
        S3SigV4Auth(await self.credentials.current(), "s3", region).add_auth(request)
        return dict(request.headers.items())

    def _unreachable(self, error: Exception, remedy: str, *, passing: bool) -> Exception:
        message = f"{self.endpoint} could not be reached ({str(error) or 'no response in time'})"
        return Failure(code=type(error).__name__, message=message, remedy=remedy, passing=passing).error()


def _encoded(query: Mapping[str, str]) -> str:
    """As Signature Version 4 wants it: sorted, all but unreserved characters percent-encoded."""
    return "&".join(f"{name}={quote(value, safe='-_.~')}" for name, value in sorted(query.items()))


def _moment(date: str | None) -> Moment | None:
    try:
        return None if date is None else moment_of(parsedate_to_datetime(date))
    except ValueError:
        return None
