"""The tables that are probed together, and the watchers that rest until one of them has something new."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from time import monotonic
from typing import Any, TypeAlias

import anyio

from triggers.postgres.catalog.facts import TableFacts
from triggers.postgres.server.session import Server
from triggers.postgres.sql import Question, news_of

Arguments: TypeAlias = tuple[int | str, ...]
"""The arguments of a question: the lower each of them is, the more the question covers."""


class ProbedWatcher:
    """One watcher among those whose tables are probed together."""

    __slots__ = ("_rests_since", "asks", "facts", "table", "unchanged_at", "wake")

    def __init__(self, table: ProbedTable, facts: TableFacts, wake: Callable[[], None]) -> None:
        self.facts = facts
        self.wake = wake
        self.unchanged_at = anyio.current_time()
        """When the table was last known to be as in `facts`; -inf once it was found altered."""
        self.asks: tuple[Arguments, Server] | None = None
        """The arguments of the watcher's question and the server it polled; None while it does not rest."""
        self.table = table
        self._rests_since = 0.0

    def rest(self, arguments: Arguments, server: Server) -> None:
        """Call `wake`, until `end_rest`, when something may lie beyond the arguments or another server answers."""
        self.asks, self._rests_since = (arguments, server), monotonic()
        self.table.is_stale = True

    def end_rest(self) -> None:
        self.asks, self.table.is_stale = None, True

    @property
    def looked_at(self) -> float | None:
        """When the last probe for this rest began that found nothing new, by `time.monotonic`; None: there was none."""
        at = self.table.quiet_at
        return at if self.asks is not None and at >= self._rests_since else None

    def adopt(self, facts: TableFacts) -> None:
        """Continue with a table that was examined again."""
        self.facts, self.unchanged_at = facts, anyio.current_time()

    def compare(self, mark: int | None, facts: TableFacts, at: float) -> None:
        """Wake the watcher if `mark`, which was read after the moment `at`, is no longer that of these facts."""
        if facts is not self.facts:
            return
        self.unchanged_at = at if mark == facts.mark else -math.inf
        if self.unchanged_at < at:
            self.wake()


@dataclass(kw_only=True, eq=False, slots=True)
class ProbedTable:
    """One question about a table, for all watchers that ask it."""

    question: Question
    size: int
    group: ProbedGroup = field(init=False)
    watchers: list[ProbedWatcher] = field(default_factory=list)
    is_stale: bool = True
    """Whether a watcher began or ended its rest since the arguments were combined."""
    quiet_at: float = 0.0
    _arguments: Arguments | None = None
    _server: Server | None = None

    def arguments(self) -> Arguments | None:
        """Return arguments that cover every resting watcher; None when no watcher rests."""
        if self.is_stale:
            asked = [watcher.asks for watcher in self.watchers if watcher.asks is not None]
            self._arguments = tuple(map(min, zip(*(arguments for arguments, _ in asked), strict=True))) or None
            servers = {server for _, server in asked}
            self._server = servers.pop() if len(servers) == 1 else None
            self.is_stale = False
        return self._arguments

    def take_answer(self, server: Server, at: float, *, has_news: bool) -> None:
        """Take the answer of a probe that began at the moment `at`: wake the watchers if there is something new."""
        if has_news or server != self._server:
            self.wake()
        else:
            self.quiet_at = at

    def wake(self) -> None:
        for watcher in self.watchers:
            if watcher.asks is not None:
                watcher.wake()


@dataclass(kw_only=True, eq=False)
class ProbedGroup:
    """The tables of one statement. It is the same whichever watchers rest, so it stays prepared."""

    is_suspect: bool = False
    """Whether its last probe failed, or that of the group from which it was divided."""
    alone_until: float = -math.inf
    """The moment until which the group's only table, whose probe failed, is not probed."""
    tables: list[ProbedTable] = field(default_factory=list)
    size: int = 0
    _statement: str = ""

    def add(self, table: ProbedTable) -> None:
        self.tables.append(table)
        self.size += table.size
        table.group, self._statement = self, ""

    def remove(self, table: ProbedTable) -> None:
        self.tables.remove(table)
        self.size -= table.size
        self._statement = ""

    def statement(self) -> str:
        if not self._statement:
            self._statement = news_of([table.question for table in self.tables])
        return self._statement

    def arguments(self) -> tuple[list[int | None], list[str | None]] | None:
        """Return the numeric and the text arguments; None when no watcher rests. A null argument makes its question's answer no."""
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

    def halves(self) -> Iterator[ProbedGroup]:
        middle = (len(self.tables) + 1) // 2
        for tables in filter(None, (self.tables[:middle], self.tables[middle:])):
            half = ProbedGroup(is_suspect=True)
            for table in tables:
                half.add(table)
            yield half
