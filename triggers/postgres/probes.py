"""One statement for many settled watchers, which asks whether anything has come that their own polls would read.

A settled watcher waits for nothing but what lies beyond its position, so that its poll is one question, and a hundred such
questions are one statement. The answer is a hint. It commits nothing and decides nothing: who has news polls by itself, and
so does everybody whose probe fails. A row that becomes visible after a probe is there for the next one, since a question
stays the same until its watcher has polled; a probe may tell of news that are none, and never the other way.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from time import monotonic
from typing import Any, Final, TypeAlias

import anyio
import structlog
from anyio.abc import TaskGroup

from triggers.errors import TriggerError
from triggers.postgres.catalog import MARK_OF_ALL, MARKS
from triggers.postgres.checks import TableFacts
from triggers.postgres.session import Server, Session
from triggers.postgres.sql import Question, news_of

TABLES: Final = 100
"""Of one statement, partitions counted: it locks them all, and a server has room for so many locks."""
MARKS_EVERY: Final = 10.0
"""Seconds between two looks at whether somebody has altered the tables."""
ALONE_FOR: Final = 30.0
"""Seconds for which a table that is locked or slow is not probed: its watchers poll."""

Arguments: TypeAlias = tuple[int | str, ...]
"""Of a question; the lower each of them is, the more it asks for."""

log = structlog.get_logger()


class Probed:
    """One watcher among those that are probed together."""

    def __init__(self, table: _Table, facts: TableFacts, wake: Callable[[], None]) -> None:
        self.facts = facts
        self.wake = wake
        self.unchanged_at = anyio.current_time()
        """When the table was last as `facts` have it; -inf once it was seen altered."""
        self.asks: tuple[Arguments, Server] | None = None
        """None while it does not rest."""
        self.table = table
        self._rests_since = 0.0

    def rest(self, arguments: Arguments, server: Server) -> None:
        """Until `rise`, `wake` is called when something may lie beyond the arguments, or on another server."""
        self.asks, self._rests_since = (arguments, server), monotonic()
        self.table.is_stale = True

    def rise(self) -> None:
        self.asks, self.table.is_stale = None, True

    @property
    def looked_at(self) -> float | None:
        """When the last probe began that was made for it and had no news, by `time.monotonic`."""
        at = self.table.quiet_at
        return at if self.asks is not None and at >= self._rests_since else None

    def take(self, facts: TableFacts) -> None:
        """Of a table that was examined anew."""
        self.facts, self.unchanged_at = facts, anyio.current_time()

    def compare(self, mark: int | None, facts: TableFacts, at: float) -> None:
        """`mark` is what the mark of these facts has become, read after the moment `at`."""
        if facts is not self.facts:
            return
        self.unchanged_at = at if mark == facts.mark else -math.inf
        if self.unchanged_at < at:
            self.wake()


@dataclass(kw_only=True, eq=False, slots=True)
class _Table:
    """One question, for all watchers that ask it."""

    question: Question
    size: int
    group: _Group = field(init=False)
    watchers: list[Probed] = field(default_factory=list)
    is_stale: bool = True
    """Somebody began or ended to rest since the arguments were put together."""
    quiet_at: float = 0.0
    _arguments: Arguments | None = None
    _server: Server | None = None

    def arguments(self) -> Arguments | None:
        """Such that nobody's news are missed; None when nobody rests."""
        if self.is_stale:
            asked = [watcher.asks for watcher in self.watchers if watcher.asks is not None]
            self._arguments = tuple(map(min, zip(*(arguments for arguments, _ in asked), strict=True))) or None
            servers = {server for _, server in asked}
            self._server = servers.pop() if len(servers) == 1 else None
            self.is_stale = False
        return self._arguments

    def hear(self, server: Server, at: float, *, has_news: bool) -> None:
        if has_news or server != self._server:
            self.wake()
        else:
            self.quiet_at = at

    def wake(self) -> None:
        for watcher in self.watchers:
            if watcher.asks is not None:
                watcher.wake()


@dataclass(kw_only=True, eq=False)
class _Group:
    """The tables of one statement, which stays the same whoever rests: so it stays prepared."""

    is_suspect: bool = False
    """Its last probe failed, or that of the group it was divided from."""
    alone_until: float = -math.inf
    """Of a table whose probe failed."""
    tables: list[_Table] = field(default_factory=list)
    size: int = 0
    _statement: str = ""

    def add(self, table: _Table) -> None:
        self.tables.append(table)
        self.size += table.size
        table.group, self._statement = self, ""

    def remove(self, table: _Table) -> None:
        self.tables.remove(table)
        self.size -= table.size
        self._statement = ""

    def statement(self) -> str:
        if not self._statement:
            self._statement = news_of([table.question for table in self.tables])
        return self._statement

    def arguments(self) -> tuple[list[int | None], list[str | None]] | None:
        """Numbers and texts; None when nobody rests; beyond null there is nothing."""
        asked = [table.arguments() for table in self.tables]
        if not any(asked):
            return None
        numbers: list[Any] = []
        texts: list[Any] = []
        for table, arguments in zip(self.tables, asked, strict=True):
            kinds = table.question.arguments
            for kind, value in zip(kinds, arguments or [None] * len(kinds), strict=True):
                (numbers if kind is int else texts).append(value)
        return numbers, texts

    def halves(self) -> Iterator[_Group]:
        middle = (len(self.tables) + 1) // 2
        for tables in filter(None, (self.tables[:middle], self.tables[middle:])):
            half = _Group(is_suspect=True)
            for table in tables:
                half.add(table)
            yield half


class _Round:
    """The watchers with one interval. A group whose probe fails is halved until the culprit is alone in its own."""

    def __init__(self, session: Session, interval: float, random: Callable[[], float]) -> None:
        self._session = session
        self._interval = interval
        self._random = random
        self._tables: dict[Question, _Table] = {}
        self._groups: list[_Group] = []
        self._compared_at = anyio.current_time()

    def join(self, question: Question, facts: TableFacts, wake: Callable[[], None]) -> Probed:
        if question not in self._tables:
            self._tables[question] = _Table(question=question, size=len(facts.relations))
            self._place(self._tables[question])
        watcher = Probed(self._tables[question], facts, wake)
        watcher.table.watchers.append(watcher)
        return watcher

    def leave(self, watcher: Probed) -> None:
        table = watcher.table
        table.watchers.remove(watcher)
        table.is_stale = True
        if not table.watchers:
            del self._tables[table.question]
            table.group.remove(table)
            if not table.group.tables:
                self._groups.remove(table.group)

    async def run(self) -> None:
        """Until nobody is left."""
        while self._tables:
            await anyio.sleep(self._interval * (1 + self._random() / 10))
            for group in tuple(self._groups):
                await self._probe(group)
            if anyio.current_time() - self._compared_at >= MARKS_EVERY:
                self._compared_at = anyio.current_time()
                for group in tuple(self._groups):
                    await self._compare(group)

    async def _probe(self, group: _Group) -> None:
        if anyio.current_time() < group.alone_until:
            _wake(group.tables)
            return
        tables, arguments, began = tuple(group.tables), group.arguments(), monotonic()
        if arguments is None:
            return
        try:
            result = await self._session.fetch(group.statement(), *arguments)
        except TriggerError as error:
            log.debug("postgres.probe_failed", tables=len(tables), error=str(error))
            self._divide(group)
            return
        news = set(result.rows[0]["news"])
        for number, table in enumerate(tables):
            table.hear(result.server, began, has_news=number in news)
        if group.is_suspect and group in self._groups:
            self._groups.remove(group)
            for table in group.tables:
                self._place(table)

    def _place(self, table: _Table) -> None:
        for group in self._groups:
            if not group.is_suspect and group.size + table.size <= TABLES:
                break
        else:
            group = _Group()
            self._groups.append(group)
        group.add(table)

    def _divide(self, group: _Group) -> None:
        _wake(group.tables)
        if len(group.tables) == 1:
            group.alone_until = anyio.current_time() + ALONE_FOR
        elif group in self._groups:
            place = self._groups.index(group)
            self._groups[place : place + 1] = group.halves()

    async def _compare(self, group: _Group) -> None:
        """What changed without a row must be noticed while nobody polls, too."""
        began = anyio.current_time()
        watchers = [(watcher, watcher.facts) for table in group.tables for watcher in table.watchers]
        if await self._is_as_known([facts for _, facts in watchers]):
            for watcher, facts in watchers:
                watcher.compare(facts.mark, facts, began)
            return
        numbers: dict[tuple[int, ...], int] = {}
        for _, facts in watchers:
            numbers.setdefault(tuple(facts.locked_relations), len(numbers))
        pairs = [(number, oid) for relations, number in numbers.items() for oid in relations]
        try:
            rows = (await self._session.fetch(MARKS, *map(list, zip(*pairs, strict=True)))).rows
        except TriggerError as error:
            log.debug("postgres.probe_failed", tables=len(group.tables), error=str(error))
            _wake(group.tables)
            return
        marks = {row["number"]: row["mark"] for row in rows}
        for watcher, facts in watchers:
            watcher.compare(marks[numbers[tuple(facts.locked_relations)]], facts, began)

    async def _is_as_known(self, known: Iterable[TableFacts]) -> bool:
        """One look at all of them, which costs much less than one at each: the mark of all is the sum of their marks."""
        marks = {(tuple(facts.locked_relations), facts.mark) for facts in known}
        relations = [oid for oids, _ in marks for oid in oids]
        try:
            [row] = (await self._session.fetch(MARK_OF_ALL, relations)).rows
        except TriggerError:
            return False
        return bool(row["mark"] == sum(mark for _, mark in marks) % 2**63)


def _wake(tables: Iterable[_Table]) -> None:
    for table in tables:
        table.wake()


class Probes:
    """Of one connection. A round for each interval, as long as it has watchers."""

    def __init__(self, session: Session, tasks: TaskGroup, random: Callable[[], float] = random.random) -> None:
        """`random` draws jitter from [0, 1)."""
        self.session = session
        self._random = random
        self._tasks = tasks
        self._rounds: dict[float, _Round] = {}

    def join(self, question: Question, facts: TableFacts, interval: float, wake: Callable[[], None]) -> Probed:
        """Probe every `interval` seconds for a watcher while it rests, until it leaves."""
        if interval not in self._rounds:
            self._rounds[interval] = _Round(self.session, interval, self._random)
            self._tasks.start_soon(self._run, interval)
        return self._rounds[interval].join(question, facts, wake)

    def leave(self, watcher: Probed, interval: float) -> None:
        self._rounds[interval].leave(watcher)

    async def _run(self, interval: float) -> None:
        await self._rounds[interval].run()
        del self._rounds[interval]
