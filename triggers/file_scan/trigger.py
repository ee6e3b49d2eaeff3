"""The options and the poll that `s3.new_files` and `file.new_files` share: one scan, page by page."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, ClassVar, Final, Generic

import anyio
import structlog

from triggers.base import (
    ClientT,
    Finding,
    IncrementalTrigger,
    JsonObject,
    JsonValue,
    Position,
    RejectedItem,
    RowChanges,
    StoredPosition,
    TriggerBatch,
    TriggerContext,
    TriggerEvent,
)
from triggers.errors import ConfigurationError, SourceChanged, SourceCopied
from triggers.file_scan.events import FileEvents
from triggers.file_scan.manifests import ManifestReader
from triggers.file_scan.options import FileOptionsT, start_of
from triggers.file_scan.questions.cleaning import CleanedFiles
from triggers.file_scan.questions.inventory import ListedFiles
from triggers.file_scan.questions.reselection import Look, continued, is_reselection, reselected
from triggers.file_scan.questions.survey import Unmatched
from triggers.file_scan.rules.copies import MOST_AT_ONCE, CopyRule
from triggers.file_scan.scanner import Scanner, Step
from triggers.file_scan.state.handled import Removals
from triggers.file_scan.state.scan_state import ScanState, text_of
from triggers.file_scan.versions import FileVersion, Moment, ScanPage, length_of
from triggers.hosting import SharedPollTrigger

SILENCE: Final = 10.0
"""Seconds between two log lines about the progress of a long scan, such as the first one of a large source."""

SCAN_EVERY: Final = 3600.0
"""The most seconds between two scans of a watcher's own, whatever shared polls say."""

log = structlog.get_logger()


@dataclass(frozen=True, kw_only=True, slots=True)
class QuietPoll:
    """A shared poll that had no news for a watcher: when it began, by `time.monotonic` and by the source's clock."""

    began: float
    clock: Moment


@dataclass(frozen=True, kw_only=True)
class FilesBatch(TriggerBatch):
    """A batch with the versions that its events name or that it rejects."""

    versions: Sequence[FileVersion]


class NewFiles(
    SharedPollTrigger,
    IncrementalTrigger[FileOptionsT, ClientT],
    ListedFiles[FileOptionsT],
    CleanedFiles[FileOptionsT, ClientT],
    Generic[FileOptionsT, ClientT],
):
    """A trigger for new files. Subclasses list the source; this class decides which files are new and what is stored."""

    format: ClassVar[int] = 3
    copy_rule: ClassVar[CopyRule]
    most_unnamed: ClassVar[int | None] = 100
    """The most rejected files of one page; more have a common cause. None: each is rejected by itself, however many."""
    _scanner: Scanner | None = None
    _reselected: Mapping[str, Any] | None = None
    """The identity of the position, if only its selection is another one."""

    def __init__(self, options: FileOptionsT, client: ClientT, context: TriggerContext) -> None:
        super().__init__(options, client, context)
        self._matcher = options.matcher
        self._is_last = None if options.last is None else lambda version: options.tells_last(version.key)
        self._unmatched = Unmatched()
        self._removals = None if options.clean_source is None else Removals()
        self._events = FileEvents(options)

    @abstractmethod
    async def content_of(self, version: FileVersion, most: int) -> bytes | None:
        """Return the content of a listed version, see `manifest_reader.ContentOf`."""

    @abstractmethod
    def pages(self, after: str | None) -> AsyncGenerator[ScanPage, None]:
        """List the source once, in key order, from the first key behind `after` on; at least one page."""

    async def survey(self) -> Finding | None:
        """Say how much there is, see `Surveys`."""
        return None

    @property
    def interval(self) -> timedelta:
        return self.options.interval

    @property
    def up_to(self) -> JsonValue:
        if self._scanner is None or self._scanner.up_to is None:
            return None
        polled = 0 if self.quiet_poll is None else self.quiet_poll.clock - length_of(self.options.min_age)
        return text_of(max(self._scanner.up_to, polled))

    @property
    def looked_at(self) -> float | None:
        return None if self.quiet_poll is None else self.quiet_poll.began

    @property
    def quiet_poll(self) -> QuietPoll | None:
        """The last shared poll without news for this watcher, of its last rest."""
        return None

    @property
    def is_settled(self) -> bool:
        """Whether nothing but a change of what the last scan listed can bring events."""
        return self._scanner is not None and self._scanner.is_settled

    def seconds_of_rest(self) -> float:
        """The most seconds to rest while shared polls are made for it."""
        return min(SCAN_EVERY * (1 + self.context.random()) / 2, self._unmatched.seconds_left)

    @property
    def findings(self) -> Sequence[Finding]:
        findings = [*self._unmatched.findings, *self._events.findings, *self._cleaning]
        if self._scanner is None or (vanished := self._scanner.state.vanished) is None:
            return findings
        forget_after = length_of(self.options.forget_after) if self.options.mode == "strict" else None
        return [vanished.finding(forget_after), *findings]

    async def poll(self, position: StoredPosition | None) -> AsyncGenerator[TriggerBatch, None]:
        scanner = self.scanner_from(position)
        if position is not None and position.retried:
            yield await self._retry(scanner, position.retried)
        listed, logged_at = 0, anyio.current_time()
        async with aclosing(self.pages(scanner.cursor)) as pages:
            async for page in pages:
                step = scanner.advance(page, now=anyio.current_time())
                listed += len(page)
                if page.last is not None:
                    logged_at = _log_progress(listed, page.last, logged_at)
                batch = self.batch_of(step, caught_up=page.last is None)
                if self.most_unnamed is not None:
                    _refuse_many(len(step.versions), batch.rejected, self.most_unnamed)
                yield batch  # also for a page without anything new: the deadline is one page's, not the whole scan's
                if step.copied is not None:
                    raise SourceCopied(step.copied.sentence(self.context.watcher))
                if step.stopped_at is not None:
                    raise UnnamedFile(step.stopped_at)
        while scanner.copies is not None and (copies := scanner.copies.take(MOST_AT_ONCE)):
            yield self.batch_of(scanner.emitted_again(copies, anyio.current_time()), caught_up=True)
        if scanner.last is not None:
            reader = ManifestReader(self.context.manifests, self.content_of)
            async with aclosing(reader.parts(scanner.last.ready)) as parts:
                async for part in parts:
                    yield self.batch_of(scanner.emit_last(part, anyio.current_time()), caught_up=True)
        await self._unmatched.look(self.survey, has_selected=scanner.has_selected)

    async def _retry(self, scanner: Scanner, items: Sequence[RejectedItem]) -> TriggerBatch:
        """List all once, to emit these versions where they are still there and can be named by now."""
        tried = {item.version: item for item in items}
        versions: list[FileVersion] = []
        async with aclosing(self.pages(None)) as pages:
            async for page in pages:
                versions += [version for version in page.versions(None) if tried.keys() & names_of(version)]
        reader = ManifestReader(self.context.manifests, self.content_of)
        versions = [read for version in versions if (read := await reader.read(version)) is not None]
        batch = self.batch_of(scanner.emitted_again(versions, anyio.current_time()), caught_up=False, tried=True)
        again = {item.version for item in batch.rejected}
        return replace(batch, settled=[item for version, item in tried.items() if version not in again])

    def identity_of(self, trigger: str, **place: str) -> JsonObject:
        """The source that a position belongs to: the place, and what is selected there."""
        options = self.options
        chosen = {"match": options.match, "regex": options.regex, "min_size": options.min_size}
        return {"trigger": trigger, **place, **chosen}

    def reselects(self, stored: Any) -> bool:
        self._reselected = stored if is_reselection(stored, self.source_identity()) else None
        return self._reselected is not None

    async def decisions(self, position: StoredPosition) -> str:
        state, look = reselected(ScanState.from_json(position.state), self._reselected or {}), Look()
        scanner = self._made(replace(position, state=state.to_json()))
        await look.count(self.pages(None), scanner)
        return look.sentence(self.context.watcher)

    def rewound(self, position: StoredPosition | None, to: str) -> Position:
        if to == "here":
            state = None if position is None else continued(ScanState.from_json(position.state), self._reselected)
            if position is None or state is None:
                raise ConfigurationError(
                    "there is nothing to keep with `here`, which goes on where the watcher stood after its match, regex, min_size or"
                    " prefix has changed, or after it has met many copies; write now, start, or a time"
                )
            return Position(watermark=state.watermark(len(position.rows)), state=state.to_json())
        state = ScanState.starting(start_of(to))
        return Position(watermark=state.watermark(seen=0), state=state.to_json(), rows=RowChanges(clear=True))

    def retold(self, kept: StoredPosition, batch: TriggerBatch) -> bool:
        if not isinstance(batch, FilesBatch):
            return False
        before = ScanState.from_json(kept.state)
        return all(before.accounts_for(version, kept.rows) for version in batch.versions)

    def scanner_from(self, position: StoredPosition | None) -> Scanner:
        """Return the scanner of this instance, which the first call makes from `position`."""
        if self._scanner is None:
            rule = self.copy_rule if self.options.on_copied == "stop" else None
            self._scanner = self._made(position, self._is_last, rule)
        return self._scanner

    def _made(
        self,
        position: StoredPosition | None,
        is_last: Callable[[FileVersion], bool] | None = None,
        copy_rule: CopyRule | None = None,
    ) -> Scanner:
        options = self.options
        return Scanner(
            options.algorithm(),
            position,
            start=options.start_from,
            min_age=length_of(options.min_age),
            now=anyio.current_time(),
            stops=options.on_bad_row == "stop",
            forget_after=length_of(options.forget_after),
            is_last=is_last,
            copy_rule=copy_rule,
            removals=self._removals,
        )

    def batch_of(self, step: Step, *, caught_up: bool, tried: bool = False) -> TriggerBatch:
        """Return the batch of a step. `tried`: an earlier event named those of its versions that are rejected."""
        if not step.versions:
            return TriggerBatch(position=step.position, caught_up=caught_up)
        rejected = [
            RejectedItem(key=version.key, version=str(version.fingerprint), reason=version.fault)
            for version in step.versions
            if version.fault is not None
        ]
        events = [*self._events.of(step)]
        if rejected and not tried:
            own = [event for event in events[-1:] if event.asset is None]
            [last] = own or [TriggerEvent(count=0, watermark=step.watermark, payload={"files": []})]
            payload = {**last.payload, "rejected": [item.key for item in rejected]}
            events = [*events[: len(events) - len(own)], replace(last, payload=payload)]
        return FilesBatch(
            events=events, position=step.position, caught_up=caught_up, rejected=rejected, versions=step.versions
        )


def _log_progress(listed: int, key: str, logged_at: float) -> float:
    """Log how far a long scan has come, unless that was logged just now. Return when it was logged last."""
    now = anyio.current_time()
    if now - logged_at < SILENCE:
        return logged_at
    log.info("watcher.scanning", count=listed, key=key)
    return now


def names_of(version: FileVersion) -> set[str]:
    """The names by which rejected items know a version."""
    return {str(name) for name in (version.fingerprint, *version.aliases)}


class UnnamedFile(ConfigurationError):
    """No event can name the next file. The watcher stops at it; everything before it is emitted."""

    def __init__(self, file: FileVersion) -> None:
        super().__init__(
            f"no event can name the file {file.key}: {file.fault}; everything before it is emitted. Rename or delete it, or set"
            " on_bad_row: report to reject such files"
        )


def _refuse_many(files: int, rejected: Sequence[RejectedItem], most: int) -> None:
    """Raise `SourceChanged` where so many files are rejected that they must have a common cause."""
    if len(rejected) > most or (files > 1 and len(rejected) == files):
        how_many = f"more than {most}" if len(rejected) > most else f"all {files}"
        raise SourceChanged(
            f"no event can name {how_many} new files of one page, the first is {rejected[0].key}: {rejected[0].reason}; rename them,"
            " or select others with `match`"
        )
