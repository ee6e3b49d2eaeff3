"""One statement that asks, for many settled watchers, whether there is anything that their own polls would read.

A settled watcher waits for nothing but what lies beyond its position, so its poll is one question, and a hundred such questions
are one statement. The answer is a hint: it commits nothing and decides nothing. A watcher for which there is something new
polls by itself, and so does every watcher whose probe fails. A row that becomes visible after a probe is found by the next
one, because a question stays the same until its watcher has polled. A probe may report something new where there is nothing,
but it never misses what is new.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Iterable
from time import monotonic
from typing import Final

import anyio
import structlog
from anyio.abc import TaskGroup

from triggers.errors import TriggerError
from triggers.hosting import SharedPolls
from triggers.postgres.catalog.facts import TableFacts
from triggers.postgres.catalog.statements import MARK_OF_ALL, MARKS
from triggers.postgres.server.probed_tables import ProbedGroup, ProbedTable, ProbedWatcher
from triggers.postgres.server.session import Session
from triggers.postgres.sql import Question

TABLES: Final = 100
"""The most tables of one statement, partitions included. It locks all of them, and a server has room for a limited number of locks."""
MARKS_EVERY: Final = 10.0
"""Seconds between two checks for alterations of the tables."""
ALONE_FOR: Final = 30.0
"""Seconds for which a table that is locked or slow is not probed; its watchers poll."""

log = structlog.get_logger()


class ProbeRound:
    """The watchers with one interval. A group whose probe fails is halved until the table that failed is alone in its group."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._tables: dict[Question, ProbedTable] = {}
        self._groups: list[ProbedGroup] = []
        self._compared_at = anyio.current_time()

    def join(self, question: Question, facts: TableFacts, wake: Callable[[], None]) -> ProbedWatcher:
        if question not in self._tables:
            self._tables[question] = ProbedTable(question=question, size=len(facts.relations))
            self._place(self._tables[question])
        watcher = ProbedWatcher(self._tables[question], facts, wake)
        watcher.table.watchers.append(watcher)
        return watcher

    def leave(self, watcher: ProbedWatcher) -> None:
        table = watcher.table
        table.watchers.remove(watcher)
        table.is_stale = True
        if not table.watchers:
            del self._tables[table.question]
            table.group.remove(table)
            if not table.group.tables:
                self._groups.remove(table.group)

    async def poll(self) -> None:
        """Probe each group once, and compare the marks of its tables if that is due."""
        for group in tuple(self._groups):
            await self._probe(group)
        if anyio.current_time() - self._compared_at >= MARKS_EVERY:
            self._compared_at = anyio.current_time()
            for group in tuple(self._groups):
                await self._compare(group)

    async def _probe(self, group: ProbedGroup) -> None:
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
            table.take_answer(result.server, began, has_news=number in news)
        if group.is_suspect and group in self._groups:
            self._groups.remove(group)
            for table in group.tables:
                self._place(table)

    def _place(self, table: ProbedTable) -> None:
        for group in self._groups:
            if not group.is_suspect and group.size + table.size <= TABLES:
                break
        else:
            group = ProbedGroup()
            self._groups.append(group)
        group.add(table)

    def _divide(self, group: ProbedGroup) -> None:
        _wake(group.tables)
        if len(group.tables) == 1:
            group.alone_until = anyio.current_time() + ALONE_FOR
        elif group in self._groups:
            place = self._groups.index(group)
            self._groups[place : place + 1] = group.halves()

    async def _compare(self, group: ProbedGroup) -> None:
        """Compare the marks of the group's tables, so that alterations are noticed while no watcher polls."""
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
        """Compare the sum of all marks, which costs much less than comparing each: the mark of all is the sum of their marks."""
        marks = {(tuple(facts.locked_relations), facts.mark) for facts in known}
        relations = [oid for oids, _ in marks for oid in oids]
        try:
            [row] = (await self._session.fetch(MARK_OF_ALL, relations)).rows
        except TriggerError:
            return False
        return bool(row["mark"] == sum(mark for _, mark in marks) % 2**63)


def _wake(tables: Iterable[ProbedTable]) -> None:
    for table in tables:
        table.wake()


class Probes:
    """The probes of one connection: a round for each interval, as long as it has watchers."""

    def __init__(self, session: Session, tasks: TaskGroup, random: Callable[[], float] = random.random) -> None:
        """`random` draws jitter from [0, 1)."""
        self.session = session
        self._rounds: dict[float, ProbeRound] = {}
        self._polls = SharedPolls[float, ProbedWatcher](self._poll, tasks, random)

    def join(self, question: Question, facts: TableFacts, interval: float, wake: Callable[[], None]) -> ProbedWatcher:
        """Probe every `interval` seconds for a watcher while it rests, until it leaves."""
        if interval not in self._rounds:
            self._rounds[interval] = ProbeRound(self.session)
        watcher = self._rounds[interval].join(question, facts, wake)
        self._polls.join(interval, watcher, interval=interval)
        return watcher

    def leave(self, watcher: ProbedWatcher, interval: float) -> None:
        self._rounds[interval].leave(watcher)
        self._polls.leave(interval, watcher)
        if not self._polls.members[interval]:
            del self._rounds[interval]

    async def _poll(self, interval: float, _watchers: Collection[ProbedWatcher]) -> None:
        await self._rounds[interval].poll()
