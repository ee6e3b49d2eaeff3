"""`s3.new_files`: new or updated objects under a prefix, each exactly once."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Collection, Sequence
from contextlib import AsyncExitStack, aclosing
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, ClassVar, Final
from urllib.parse import unquote, urlsplit

import anyio
from pydantic import BaseModel

from triggers.base import Finding, JsonObject, JsonValue, StoredPosition, TriggerBatch, TriggerContext
from triggers.errors import SourceUnavailable
from triggers.explanations import Explanation
from triggers.file_scan.rules.copies import CopyRule
from triggers.file_scan.scanner import Scanner
from triggers.file_scan.trigger import NewFiles, QuietPoll
from triggers.file_scan.versions import SECOND, FileVersion, Moment, ScanPage, length_of
from triggers.s3.checks import listing_check, survey, uploads_check
from triggers.s3.cleaning import ObjectCleaner, cleaning_check, target_check
from triggers.s3.clock import ClockReading, moment_of_date
from triggers.s3.explanation import SCHEMES, explain_object
from triggers.s3.failures import S3Refused
from triggers.s3.objects import FingerprintCache, S3Object, S3Page, Selection, bare_etag
from triggers.s3.options import S3NewFilesOptions as S3NewFilesOptions  # noqa: PLC0414  it belongs here
from triggers.s3.pages import ListedPage, Row
from triggers.s3.probes import PAGES, ListedPlace, RestingWatcher, Signature
from triggers.s3.shared import DatedPage
from triggers.shared.manifests import BadManifest

if TYPE_CHECKING:
    from triggers.s3.listing import S3Client
    from triggers.s3.queue import Queue, QueueMessage

_NO_ETAGS: Final = Finding.warning(
    "etags",
    "the server lists objects without an ETag: the size tells their versions apart, so that one overwritten within the second"
    " of its LastModified by as many bytes is missed",
    "have the S3 server, or the gateway in front of it, send ETags, or write each object under a key of its own",
)


_GONE: Final = "NoSuchKey"
_ARCHIVED: Final = "InvalidObjectState"
_SHARE_OF_SHARED_POLLS: Final = 0.2
"""The share of `poll_timeout` that a shared poll may take before each watcher polls by itself."""
_DOUBT: Final = (
    "the responses of {} disagree about the time, and a watcher that starts at now waits until three agree; set the clocks of the"
    " S3 server and of each gateway in front of it by NTP"
)
"""Why a watcher does not start at now while the time now is in doubt."""


class S3NewFiles(NewFiles[S3NewFilesOptions, "S3Client"]):
    """Exact iff no object becomes visible later than `lateness` after its LastModified; exact without a bound in `mode: strict`."""

    Options: ClassVar[type[BaseModel]] = S3NewFilesOptions
    Cleaner = ObjectCleaner
    connection_type: ClassVar[str | None] = "s3"
    copy_rule: ClassVar[CopyRule] = CopyRule(
        same="key, size and ETag", other="LastModified", within=length_of(timedelta(hours=1))
    )

    def __init__(self, options: S3NewFilesOptions, client: S3Client, context: TriggerContext) -> None:
        super().__init__(options, client, context)
        self._cache: FingerprintCache[Row] = FingerprintCache()
        self._selection = Selection(
            bucket=options.bucket,
            prefix=options.prefix,
            matcher=self._matcher,
            min_size=options.min_size,
            directory_markers=options.directory_markers,
        )
        self._listed_prefix = options.prefix + self._matcher.literal
        """The longest prefix under which all objects lie that can match."""
        patience = context.poll_timeout.total_seconds() * _SHARE_OF_SHARED_POLLS
        self._place = ListedPlace(options.bucket, self._listed_prefix, self.interval.total_seconds(), patience)
        self._listing = client.listing(options.bucket, self._listed_prefix)
        self._queue: Queue | None = None
        self._is_first = True
        self._known: Signature | None = None
        """The signature of the last listing, if it was read as a whole and is short enough for shared polls."""
        self._news: Sequence[DatedPage] | None = None
        self._warnings: Sequence[Finding] = ()
        """The warnings of the last check."""
        self._lacks_etags = False
        """The last scan, as far as it has come, met an object without an ETag."""
        self._resting: RestingWatcher | None = None
        client.clocks[options.bucket].follow(options.lateness if options.mode == "window" else timedelta(0))
        self._due = True
        """A scan is due. Hints alone do not make it due."""
        self._scan_at = 0.0
        self._has_scanned = False
        """This poll is a scan; other polls only look up hints."""

    @classmethod
    def defaults(cls, asset_uri: str) -> JsonObject:
        uri = urlsplit(asset_uri)
        if uri.scheme not in SCHEMES or not uri.netloc:
            return {}
        return {"bucket": uri.netloc, "prefix": unquote(uri.path.removeprefix("/"))}

    async def check(self) -> list[Finding]:
        options = self.options
        findings = [await listing_check(self.client, options.bucket, self._listed_prefix)]
        if findings[0].level == "error":
            return findings
        if options.mode == "window":
            findings += await uploads_check(self.client, options.bucket, self._listed_prefix, options.lateness)
        if options.notifications is not None:
            findings.append(await self.client.queues.check(options.notifications))
        if options.clean_source is not None:
            findings.append(await cleaning_check(self.client, options))
        if options.target is not None:
            findings.append(await target_check(self.client, options.target))
        self._warnings = [finding for finding in findings if finding.level in {"info", "warning"}]
        return findings

    async def survey(self) -> Finding | None:
        return await survey(self.client, self._selection, self.options)

    def source_identity(self) -> JsonValue:
        options = self.options
        return self.identity_of(
            "s3.new_files", endpoint=self.client.endpoint, bucket=options.bucket, prefix=options.prefix
        )

    async def explain(self, item: str, position: StoredPosition | None) -> Explanation:
        return await explain_object(self.client, self._selection, self.options, item, position)

    async def content_of(self, version: FileVersion, most: int) -> bytes | None:
        assert isinstance(version, S3Object)  # noqa: S101 - `pages` lists no others
        return await _content_of(self.client, version, most)

    async def events(self, position: StoredPosition | None) -> AsyncGenerator[TriggerBatch, None]:
        url, batches = self.options.notifications, super().events(position)
        del position  # it may be large
        async with AsyncExitStack() as stack:
            if url is not None and not self.context.dry_run:
                listening = self.client.queues.listening(url, watcher=self.context.watcher, wake=super().wake)
                self._queue = stack.enter_context(listening)
            async for batch in await stack.enter_async_context(aclosing(batches)):
                is_true = batch.whole_since is None or self._has_scanned
                yield batch if is_true else replace(batch, whole_since=None)

    async def poll(self, position: StoredPosition | None) -> AsyncGenerator[TriggerBatch, None]:
        """Look up the keys of hints, also between two pages, and scan when a scan is due."""
        scanner, self._has_scanned = self.scanner_from(position), False
        if self._queue is not None:
            async with aclosing(self._hinted(self._queue, scanner)) as hinted:
                async for batch in hinted:
                    yield batch
        if not self._due:
            return
        self._due = False
        async with aclosing(super().poll(position)) as scan:
            async for batch in scan:
                yield batch
                if self._queue is not None:
                    async with aclosing(self._hinted(self._queue, scanner)) as hinted:
                        async for more in hinted:
                            yield more
        self._scan_at, self._has_scanned = anyio.current_time() + self.seconds_between_polls(), True

    async def pages(self, after: str | None) -> AsyncGenerator[ScanPage, None]:
        self._cache.begin()
        self._known = None
        signatures: list[int] = []
        self._lacks_etags = self._lacks_etags and after is not None
        async with aclosing(self._dated(after)) as dated:
            async for listed, reading in dated:
                if not reading.is_agreed and self._scanner is not None and self._scanner.state.baseline == "now":
                    raise SourceUnavailable(_DOUBT.format(self.client.endpoint))
                if len(signatures) <= PAGES:
                    signatures.append(listed.signature)
                self._lacks_etags |= listed.lacks_etags
                yield self._page(listed, reading)
        if after is None and len(signatures) <= PAGES:
            self._known = tuple(signatures)

    async def _dated(self, after: str | None) -> AsyncGenerator[DatedPage, None]:
        news, self._news = self._news, None
        if after is None and news is not None:
            for page in news:
                yield page
            return
        await self.client.ask_time(self.options.bucket, self._listed_prefix)
        listing = self._listing.whole(first=self._is_first) if after is None else self._listing.rest_of(after)
        self._is_first = False
        async with aclosing(listing):
            async for page in listing:
                yield page

    async def pause_alone(self) -> None:
        """Return for a hint, for the next scan, or when another watcher begins a scan of the same prefix."""
        left = max(0.0, self._scan_at - anyio.current_time())
        with self._listing.resting(self.wake, at_least=left - self.interval.total_seconds() / 2):
            woken = await self.rest(left)
        self._due = self._due or not woken or anyio.current_time() >= self._scan_at

    def join_shared_poll(self) -> float | None:
        if self._known is None or self._queue is not None or not self.is_settled or self.context.is_alone:
            return None
        shown = self.findings
        self._resting = RestingWatcher(known=self._known, wake=self.wake, has_findings=lambda: self.findings != shown)
        self.client.probes.join(self._place, self._resting)
        return self.seconds_of_rest()

    def leave_shared_poll(self) -> None:
        if self._resting is not None:
            self.client.probes.leave(self._place, self._resting)
            self._due, self._news = True, self._resting.news

    @property
    def quiet_poll(self) -> QuietPoll | None:
        return None if self._resting is None else self._resting.last_quiet

    @property
    def findings(self) -> Sequence[Finding]:
        """The warnings of the last check, and what people should know while it runs."""
        doubt = self.client.clocks[self.options.bucket].finding
        return [
            *self._warnings,
            *super().findings,
            *([] if doubt is None else [doubt]),
            *([_NO_ETAGS] if self._lacks_etags else []),
        ]

    def wake(self) -> None:
        self._due = True
        super().wake()

    async def _hinted(self, queue: Queue, scanner: Scanner) -> AsyncGenerator[TriggerBatch, None]:
        """Yield at most one batch; its messages are deleted once it is committed."""
        if not scanner.takes_hints or not (messages := queue.take()):
            return
        batch = await self._look_up(_named_keys(messages, self._selection, since=scanner.up_to), scanner)
        if batch is not None:
            yield batch
        await queue.done(messages)

    async def _look_up(self, keys: Collection[str], scanner: Scanner) -> TriggerBatch | None:
        looked_up = await self.client.look_up(self.options.bucket, keys, scanned=self._listed_prefix)
        pages = [self._page(*dated) for dated in looked_up]
        if not pages:
            return None
        versions = [version for page in pages for version in page.versions(None)]
        step = scanner.look_up(versions, clock=min(page.clock for page in pages), now=anyio.current_time())
        return None if step.position is None else self.batch_of(step, caught_up=True)

    def _page(self, listed: ListedPage, reading: ClockReading) -> S3Page:
        return S3Page(listed=listed, reading=reading, selection=self._selection, cache=self._cache)


def _named_keys(messages: Sequence[QueueMessage], selection: Selection, *, since: Moment | None) -> Collection[str]:
    """Return the keys in messages sent at or after `since`, as far as the watcher may select them.

    A scan that began after a message was sent has listed what the message names, however long the queue has become.
    """
    recent = (message for message in messages if since is None or message.sent >= since)
    return {key for message in recent for key in message.keys if selection.may_want(key)}


async def _content_of(client: S3Client, listed: S3Object, most: int) -> bytes | None:
    """Return the content of a listed object, or `most` + 1 bytes of a larger one. None: it is another version now, or gone.

    The response has to have the ETag that was listed; where the server lists none, the size and LastModified. Raises what
    `S3Client.read` raises, and `BadManifest` for an archived object.
    """
    try:
        headers, content = await client.read(listed.bucket, listed.key, most)
    except S3Refused as error:
        if error.failure.code == _GONE:
            return None
        if error.failure.code == _ARCHIVED:
            raise BadManifest("it is archived, and S3 does not give its content") from error
        raise
    if listed.etag:
        is_listed = bare_etag(headers.get("ETag", "").encode()) == listed.etag
    else:
        modified = moment_of_date(headers.get("Last-Modified"))
        is_listed = len(content) == listed.size and modified == listed.modified // SECOND * SECOND
    return content if is_listed else None
