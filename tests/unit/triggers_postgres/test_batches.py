"""What a batch holds of the rows of a poll, of rejected items and of the reader's progress."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from tests.unit.triggers_postgres.test_postgres_checks import FACTS, OPTIONS
from tests.unit.triggers_postgres.test_row_events import Row
from triggers.base import RejectedItem
from triggers.postgres.by_id.ledger import Ledger
from triggers.postgres.by_id.names import IdRanges
from triggers.postgres.by_update.names import PrimaryKeys
from triggers.postgres.by_update.window import VersionMemory, VersionWindow
from triggers.postgres.catalog.relations import KnownRelations
from triggers.postgres.reading.batches import BatchBuilder
from triggers.postgres.reading.progress import ReadProgress
from triggers.postgres.server.session import Server
from triggers.postgres.table.watched_table import WatchedTable

WATERMARK = {"from": 10, "to": 19}
BAD = RejectedItem(key=12, column="data", reason="its JSON holds a lone surrogate")
SERVER = Server(system_identifier="1", timeline=3, boot="first")
UNUSED: Any = None
"""The client and the session of a table on which no statement runs."""


@pytest.fixture
async def table() -> WatchedTable:
    return WatchedTable(options=OPTIONS, facts=FACTS, client=UNUSED, session=UNUSED, server=SERVER)


@pytest.fixture
async def progress(table: WatchedTable) -> ReadProgress[Ledger]:
    return ReadProgress(table, Ledger(highest=10))


@pytest.fixture
async def batches(table: WatchedTable, progress: ReadProgress[Ledger]) -> BatchBuilder:
    return BatchBuilder(table, progress, IdRanges)


def rows(*ids: int) -> list[Row]:
    return [Row(id=number) for number in ids]


async def test_a_batch_without_rows_has_no_position(batches: BatchBuilder) -> None:
    batch = batches.batch([], WATERMARK)

    assert (batch.events, batch.position, batch.caught_up) == ([], None, True)


async def test_a_batch_with_rows_has_the_position_of_the_memory(
    batches: BatchBuilder, progress: ReadProgress[Ledger]
) -> None:
    progress.memory = Ledger(highest=19)
    batch = batches.batch(rows(11, 12), WATERMARK)

    assert batch.position is not None
    assert (batch.position.state["m"], batch.position.state["timeline"]) == (19, 3)
    assert progress.is_written


async def test_a_memory_that_changed_without_a_row_is_written_when_that_is_due(
    batches: BatchBuilder, progress: ReadProgress[Ledger], monkeypatch: pytest.MonkeyPatch
) -> None:
    progress.memory = Ledger(highest=19)
    assert batches.batch([], WATERMARK).position is None

    monkeypatch.setattr(ReadProgress, "moved_state_every", timedelta(0))
    assert batches.batch([], WATERMARK).position is not None
    assert batches.batch([], WATERMARK).position is None


async def test_a_memory_that_gets_too_old_is_written_silently(table: WatchedTable) -> None:
    window = VersionWindow(xmin=5)
    progress = ReadProgress(table, VersionMemory(window=window))
    batches = BatchBuilder(table, progress, PrimaryKeys)
    progress.memory = replace(progress.memory, window=replace(window, xmin=5 + 2**27))
    silent = batches.batch([], WATERMARK)

    assert silent.position is not None
    assert silent.position.silent
    assert batches.batch([], WATERMARK).position is None


async def test_the_last_event_names_rejected_items(batches: BatchBuilder) -> None:
    [event] = batches.batch(rows(11, 13), WATERMARK, rejected=[BAD]).events

    assert (event.count, event.payload["ranges"], event.payload["rejected"]) == (2, [[11, 11], [13, 13]], [12])


async def test_an_event_without_rows_names_rejected_items(batches: BatchBuilder) -> None:
    [event] = batches.batch([], WATERMARK, rejected=[BAD]).events

    assert (event.count, event.payload["ranges"], event.payload["rejected"]) == (0, [], [12])


async def test_an_item_is_settled_when_its_row_is_reported(batches: BatchBuilder) -> None:
    batches.batch([], WATERMARK, rejected=[BAD])

    assert batches.batch(rows(11, 12), WATERMARK).settled == [BAD]
    assert batches.batch(rows(12), WATERMARK).settled == []


async def test_an_item_that_is_gone_is_settled_without_an_event(batches: BatchBuilder) -> None:
    batches.remember_rejected([BAD])
    batch = batches.batch([], WATERMARK, tried=[BAD])

    assert (batch.events, batch.settled) == ([], [BAD])
    assert batch.position is not None


async def test_an_item_that_is_rejected_again_is_not_named_again(batches: BatchBuilder) -> None:
    batches.remember_rejected([BAD])
    batch = batches.batch([], WATERMARK, rejected=[replace(BAD, reason="another")], tried=[BAD])

    assert (batch.events, batch.settled, [item.reason for item in batch.rejected]) == ([], [], ["another"])


async def test_a_reader_returns_to_what_was_written(progress: ReadProgress[Ledger]) -> None:
    progress.memory = Ledger(highest=19)
    progress.forget_unwritten()

    assert progress.memory == Ledger(highest=10)


async def test_new_relations_are_worth_a_write(progress: ReadProgress[Ledger]) -> None:
    assert progress.is_written
    progress.relations = KnownRelations(files={1: 7})

    assert not progress.is_written
    assert progress.position().state["relations"] == {"1": 7}
    assert progress.is_written
