"""ListObjectsV2 over HTTP: signed by botocore, fetched by aiohttp, scanned as bytes."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from email.utils import parsedate_to_datetime
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Final, TypeAlias
from urllib.parse import quote, urlencode

import aiohttp
import anyio
import stamina
from anyio.abc import TaskGroup
from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from yarl import URL

from triggers.errors import SourceUnavailable, TriggerError
from triggers.file_scan.versions import Moment, moment_of
from triggers.s3.aws import Addresses, CredentialSource
from triggers.s3.failures import Failure, failure_of, region_hint
from triggers.s3.pages import ListedPage, scan_page
from triggers.s3.queue import Queues
from triggers.s3.shared import DatedPage, SharedListing

if TYPE_CHECKING:
    from triggers.s3.connection import S3Connection

MAX_KEYS: Final = 1000
"""The most S3 gives."""

Headers: TypeAlias = Mapping[str, str]

_LOOK_UPS_AT_A_TIME: Final = 10
_retrying: Final = stamina.AsyncRetryingCaller(
    attempts=5, timeout=60.0, wait_initial=0.2, wait_max=10.0, wait_jitter=0.5
).on(SourceUnavailable)


class S3Client:
    """What all triggers of one connection share: HTTP connections, credentials, and which bucket lives in which region."""

    def __init__(self, connection: S3Connection, http: aiohttp.ClientSession, tasks: TaskGroup) -> None:
        """`tasks` are ended with the connection. Requests of an anonymous one are not signed."""
        self.endpoint = connection.endpoint_url or "AWS"
        """For people, and for the identity of a position."""
        self._credentials = None if connection.anonymous else CredentialSource(connection)
        self.queues = Queues(self._credentials, region=connection.region, tasks=tasks)
        self._http = http
        self.addresses = Addresses(connection)
        self._requester_pays = connection.requester_pays
        self._regions: dict[str, str] = {}
        self._listings: dict[tuple[str, str], SharedListing] = {}

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
        headers, body = await self._request(bucket, query, b"<ListBucketResult")
        clock = _moment(headers.get("Date"))
        if clock is None:
            raise Failure(
                code="NoDate",
                message=f"{self.endpoint} sends no Date header, the only clock that counts here",
                remedy="check endpoint_url, or the proxy in front of it",
            ).error()
        page = scan_page(body)
        self._check_order(page, after)
        return page, clock

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
        return (await self._request(bucket, {"lifecycle": ""}, b"<LifecycleConfiguration"))[1]

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

    async def _request(self, bucket: str, query: Mapping[str, str], document: bytes) -> tuple[Headers, bytes]:
        """A response with the document that starts with `document`; asked again where the bucket lives when a server tells."""
        for _ in range(2):
            status, headers, body = await self._get(bucket, query)
            if status == HTTPStatus.OK and document in body:
                return headers, body
            hint = region_hint(header=headers.get("x-amz-bucket-region"), body=body)
            if hint is None or hint == self._regions.get(bucket):
                break
            self._regions[bucket] = hint
        failure = failure_of(status=status, body=body, bucket=bucket, endpoint=self.endpoint)
        if failure.code == "ExpiredToken" and self._credentials is not None:
            self._credentials.forget()
        raise failure.error()

    async def _get(self, bucket: str, query: Mapping[str, str]) -> tuple[int, Headers, bytes]:
        address = await self.addresses.of(bucket, self._regions.get(bucket))
        url = URL(f"{address.url}?{_encoded(query)}", encoded=True)
        headers = await self._signed(str(url), address.region)
        try:
            async with self._http.get(url, headers=headers, proxy=address.proxy, allow_redirects=False) as response:
                return response.status, response.headers, await response.read()
        except (aiohttp.ClientError, TimeoutError) as error:
            remedy, passing = "check the connection's endpoint_url and the network", True
            if isinstance(error, aiohttp.ClientSSLError):
                remedy, passing = "set SSL_CERT_FILE to the server's CA, or correct endpoint_url", False
            message = f"{self.endpoint} could not be reached ({str(error) or 'no response in time'})"
            raise Failure(code=type(error).__name__, message=message, remedy=remedy, passing=passing).error() from error

    async def _signed(self, url: str, region: str) -> dict[str, str]:
        headers = {"x-amz-request-payer": "requester"} if self._requester_pays else {}
        if self._credentials is None:
            return headers
        request = AWSRequest(method="GET", url=url, headers=headers)
        S3SigV4Auth(await self._credentials.current(), "s3", region).add_auth(request)
        return dict(request.headers.items())


def _encoded(query: Mapping[str, str]) -> str:
    """As Signature Version 4 wants it: sorted, all but unreserved characters percent-encoded."""
    return urlencode(sorted(query.items()), quote_via=quote)


def _moment(date: str | None) -> Moment | None:
    try:
        return None if date is None else moment_of(parsedate_to_datetime(date))
    except ValueError:
        return None
