"""ListObjectsV2: pages in key order, each with the time by the server's clock."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from functools import partial
from typing import Final

import aiohttp
import anyio
import structlog
from anyio.abc import TaskGroup

from triggers.errors import SourceUnavailable, TriggerError
from triggers.file_scan.versions import Moment
from triggers.retries import AsyncRetryingCaller
from triggers.s3.aws import CredentialSource, S3Settings
from triggers.s3.clock import ClockReading, DatedResponse, ServerClock, elapsed, moment_of_date
from triggers.s3.failures import S3Failure, S3Refused
from triggers.s3.pages import ListedPage, scan_page
from triggers.s3.probes import ListingProbes
from triggers.s3.queue import Queues
from triggers.s3.requests import BucketRequests, Headers
from triggers.s3.shared import DatedPage, SharedListing
from triggers.s3.writing import ObjectWriter

MAX_KEYS: Final = 1000
"""The most objects of one page that S3 gives."""

_LOOK_UPS_AT_A_TIME: Final = 10
_PATIENCE: Final = 0.5
"""Seconds before a shared poll that failed is retried."""
log = structlog.get_logger()
_retrying: Final = AsyncRetryingCaller(attempts=5, timeout=60.0, wait_initial=0.2, wait_max=10.0, wait_jitter=0.5).on(
    SourceUnavailable
)


class S3Client:
    """What all triggers of one connection share: HTTP connections, credentials, listings, and each bucket's clock."""

    def __init__(self, connection: S3Settings, http: aiohttp.ClientSession, tasks: TaskGroup) -> None:
        """`tasks` is cancelled when the connection is closed."""
        self.endpoint = connection.endpoint_url or "AWS"
        """The server's name for people, and for the identity of a position."""
        credentials = None if connection.anonymous else CredentialSource(connection)
        self.queues = Queues(credentials, region=connection.region, tasks=tasks)
        self.requests = BucketRequests(connection, http, credentials)
        self.writer = ObjectWriter(connection=connection, credentials=credentials)
        self.probes = ListingProbes(self._list_soon, tasks)
        self.clocks: defaultdict[str, ServerClock] = defaultdict(ServerClock)
        self._listings: dict[tuple[str, str], SharedListing] = {}

    def listing(self, bucket: str, prefix: str) -> SharedListing:
        """Return the listing of a bucket and a prefix, which all their watchers share."""
        if (bucket, prefix) not in self._listings:
            fetch = partial(self.list_page, bucket, prefix)
            self._listings[bucket, prefix] = SharedListing(fetch)
        return self._listings[bucket, prefix]

    async def list_page(self, bucket: str, prefix: str, after: str | None, *, max_keys: int | None = None) -> DatedPage:
        """List the first `max_keys` objects behind `after`, with the time by the server's clock before they were listed.

        Throttling, passing faults and broken pages are retried with backoff. Raises `S3Refused` or `SourceUnavailable`.
        """
        return await _retrying(self._list_page, bucket, prefix, after, max_keys)

    async def _list_soon(self, bucket: str, prefix: str, after: str | None) -> DatedPage:
        """List a page as `list_page` does; what a retry needs is prepared only when there is one."""
        try:
            return await self._list_page(bucket, prefix, after, None)
        except SourceUnavailable:
            await anyio.sleep(_PATIENCE)
            return await self.list_page(bucket, prefix, after)

    async def ask_time(self, bucket: str, prefix: str) -> None:
        """Return when enough responses have come to tell whether they agree. Raises what `list_page` raises."""
        while not self.clocks[bucket].is_known:
            await self.list_page(bucket, prefix, None, max_keys=1)

    async def _list_page(self, bucket: str, prefix: str, after: str | None, max_keys: int | None) -> DatedPage:
        query = {"encoding-type": "url", "list-type": "2", "max-keys": str(max_keys or MAX_KEYS), "prefix": prefix}
        if after is not None:
            query["start-after"] = after
        sent, is_repeated = elapsed(), after is None and max_keys is None
        headers, body = await self.requests.get(bucket, query, b"<ListBucketResult", is_repeated=is_repeated)
        response = DatedResponse(date=self._date(headers), sent=sent, received=elapsed())
        page = scan_page(body)
        self._check_order(page, after)
        return page, self._read(bucket, response)

    def _read(self, bucket: str, response: DatedResponse) -> ClockReading:
        clock = self.clocks[bucket]
        before, reading = clock.finding, clock.observe(response)
        if before is None and (doubt := clock.finding) is not None:
            log.warning("s3.clocks_disagree", bucket=bucket, message=doubt.message, remedy=doubt.remedy)
        return reading

    async def look_up(self, bucket: str, keys: Collection[str], *, scanned: str = "") -> Sequence[DatedPage]:
        """List each of the keys that exists, as a page that holds this object alone. Raises what `list_page` raises.

        Keys are left to the scans where the server refuses the key and not the prefix that is `scanned`: a policy may allow
        the prefix alone, and a hint may name something that cannot be a key.
        """
        pages: list[DatedPage] = []
        failures: list[TriggerError] = []
        refusals: list[S3Refused] = []
        limit = anyio.Semaphore(_LOOK_UPS_AT_A_TIME)

        async def look_up(key: str) -> None:
            async with limit:
                try:
                    page, reading = await self.list_page(bucket, key, None, max_keys=1)
                    if page.rows and page.key_bytes(page.rows[0]) == key.encode():
                        pages.append((page, reading))
                except S3Refused as error:
                    refusals.append(error)
                except TriggerError as error:  # raised from here it would come as a group
                    failures.append(error)

        async with anyio.create_task_group() as tasks:
            for key in keys:
                tasks.start_soon(look_up, key)
        if failures:
            raise failures[0]
        if refusals:
            await self.list_page(bucket, scanned, None, max_keys=1)
            log.warning("s3.look_up_refused", bucket=bucket, keys=len(refusals), error=str(refusals[0]))
        return pages

    async def read(self, bucket: str, key: str, most: int) -> tuple[Headers, bytes]:
        """Return what `BucketRequests.read` returns. Throttling and passing faults are retried with backoff."""
        return await _retrying(self.requests.read, bucket, key, most)

    async def lifecycle(self, bucket: str) -> bytes:
        """Return the document of GetBucketLifecycleConfiguration. Raises `S3Refused`, also where there is none, or `SourceUnavailable`."""
        return (await self.requests.get(bucket, {"lifecycle": ""}, b"<LifecycleConfiguration"))[1]

    def _date(self, headers: Headers) -> Moment:
        date = moment_of_date(headers.get("Date"))
        if date is None:
            raise S3Failure(
                code="NoDate",
                message=f"{self.endpoint} sends no Date header, the only clock that counts here",
                remedy="check endpoint_url, or the proxy in front of it",
            ).error()
        return date

    def _check_order(self, page: ListedPage, after: str | None) -> None:
        """Refuse a listing that is not in key order (by UTF-8, which is by code point): resuming by key needs that order."""
        if page.truncated and not page.rows:
            raise SourceUnavailable("the server says that a listing goes on but lists nothing; check the S3 server")
        keys = [page.key_bytes(row) for row in (*page.rows[:1], *page.rows[-1:])]
        if any(key <= (after or "").encode() for key in keys) or keys != sorted(keys):
            raise S3Failure(
                code="OutOfOrder",
                message=f"{self.endpoint} does not list its keys in order, so that new ones can be missed",
                remedy="use a general purpose bucket; directory buckets are not supported",
            ).error()
