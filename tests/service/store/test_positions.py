"""Who may move a position: one owner at a time, fenced by epoch and version inside the moving transaction."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta

import anyio
import pytest

from store.database import Database
from store.database.schema import setting, watcher_position, watcher_position_chunk, watcher_position_row
from store.detection import position_rows, positions, rewind
from store.detection.position_rows import RowDifferences
from store.detection.positions import HeldPosition, KeptPosition, LoadedPosition, NewPosition
from store.errors import Conflict, PositionLost
from store.processes import triggerers
from tests.service.store import words
from tests.service.store.words import beat, rows, until_somebody_waits

EXPIRED = timedelta(seconds=-1)


async def claim(database: Database, owner: str, watcher: str = "files") -> LoadedPosition | None:
    async with database.transaction() as session:
        return await positions.claim(session, watcher, owner, database.dialect)


async def claimed(database: Database, owner: str) -> HeldPosition:
    await beat(database, owner)
    loaded = await claim(database, owner)
    assert loaded is not None
    return loaded.held


async def advance(database: Database, held: HeldPosition, state: str = "{}") -> HeldPosition:
    async with database.transaction() as session:
        return await words.advance(session, held, source_identity='"s"', state=state, watermark='"w"')


async def release(database: Database, owner: str, watchers: list[str] | None = None) -> None:
    async with database.transaction() as session:
        await positions.release(session, owner, watchers)


# --- claiming


async def test_the_first_claim_makes_an_empty_position(database: Database) -> None:
    await beat(database, "t1")
    assert await claim(database, "t1") == LoadedPosition(
        held=HeldPosition(watcher="files", owner="t1", epoch=1, version=0), source_identity=None, state=None, rows={}
    )


async def test_a_claim_reads_what_was_committed_last(database: Database) -> None:
    held = await claimed(database, "t1")
    held = await advance(database, held, state='{"n": 1}')
    async with database.transaction() as session:
        held = await words.advance(session, held, source_identity='"s2"', state='{"n": 2}', watermark='"w"')
        await position_rows.change_rows(
            session,
            "files",
            RowDifferences(delete_below=None, delete=[], insert={1: 10, -(2**63): 2**63 - 1}),
            database.dialect,
        )
    loaded = await claim(database, "t1")
    assert loaded is not None
    assert loaded.held == replace(held, epoch=2)
    assert (loaded.source_identity, loaded.state) == ('"s2"', '{"n": 2}')
    assert loaded.rows == {1: 10, -(2**63): 2**63 - 1}


async def test_a_living_owner_keeps_its_position(database: Database) -> None:
    held = await claimed(database, "t1")
    await beat(database, "t2")
    assert await claim(database, "t2") is None
    assert (await advance(database, held)).version == 1


async def test_an_expired_owner_loses_its_position_and_can_no_longer_move_it(database: Database) -> None:
    held = await claimed(database, "t1")
    await beat(database, "t1", lease=EXPIRED)
    taken = await claimed(database, "t2")
    assert (taken.epoch, taken.version) == (held.epoch + 1, held.version)
    with pytest.raises(PositionLost):
        await advance(database, held)
    assert (await advance(database, taken)).version == 1


async def test_an_owner_that_renews_its_lease_in_time_keeps_everything(database: Database) -> None:
    held = await claimed(database, "t1")
    await beat(database, "t1", lease=EXPIRED)
    await beat(database, "t1")
    await beat(database, "t2")
    assert await claim(database, "t2") is None
    assert (await advance(database, held)).version == 1


async def test_an_owner_that_left_or_was_forgotten_owns_nothing(database: Database) -> None:
    await claimed(database, "t1")
    async with database.transaction() as session:
        await triggerers.leave(session, "t1")
    await claimed(database, "t2")
    await beat(database, "t2", lease=-timedelta(days=2))
    async with database.transaction() as session:
        await triggerers.forget_dead(session, timedelta(days=1))
    assert (await claimed(database, "t3")).epoch == 3


async def test_claiming_ones_own_position_again_fences_earlier_commits(database: Database) -> None:
    """A commit of the past whose outcome is unknown can never land after the position was read again."""
    held = await claimed(database, "t1")
    await claimed(database, "t1")
    with pytest.raises(PositionLost):
        await advance(database, held)


async def test_a_released_position_is_free_at_once(database: Database) -> None:
    held = await claimed(database, "t1")
    await claim(database, "t1", "rows")
    await claim(database, "t1", "others")
    await beat(database, "t2")
    await release(database, "t1", ["files"])
    taken = await claim(database, "t2")
    assert taken is not None
    assert await claim(database, "t2", "rows") is None
    with pytest.raises(PositionLost):
        await advance(database, held)
    await release(database, "t1")
    assert await claim(database, "t2", "rows") is not None


async def test_nobody_releases_what_another_holds(database: Database) -> None:
    await claimed(database, "t1")
    await release(database, "t2")
    await release(database, "t2", ["files"])
    await beat(database, "t2")
    assert await claim(database, "t2") is None


async def test_of_two_that_claim_at_once_exactly_one_gets_it(database: Database) -> None:
    for owner in ("t1", "t2"):
        await beat(database, owner)
    for turn in range(10):
        won: list[str] = []

        async def try_claim(owner: str, watcher: str, won: list[str]) -> None:
            if await claim(database, owner, watcher) is not None:
                won.append(owner)

        async with anyio.create_task_group() as tasks:
            for owner in ("t1", "t2"):
                tasks.start_soon(try_claim, owner, f"w{turn}", won)
        assert len(won) == 1


async def test_many_positions_are_claimed_at_once_except_those_of_living_owners(
    database: Database,
) -> None:
    await claimed(database, "t1")
    await beat(database, "t2")
    async with database.transaction() as session:
        await position_rows.change_rows(session, "rows", RowDifferences(insert={1: 10}), database.dialect)
        await positions.claim_all(session, {"rows": 1, "others": 1}, "t2", database.dialect)
    names = ("files", "rows", "others", "new")
    async with database.statements() as session:
        taken = await positions.claim_all(session, dict.fromkeys(names, 1), "t2", database.dialect)
    assert {name: position.held.epoch for name, position in taken.items()} == {"rows": 2, "others": 2, "new": 1}
    assert {name: position.rows for name, position in taken.items()} == {"rows": {1: 10}, "others": {}, "new": {}}
    await beat(database, "t1", lease=EXPIRED)
    async with database.statements() as session:
        assert (await positions.claim_all(session, {"files": 1}, "t2", database.dialect))["files"].held.epoch == 2
        assert await positions.claim_all(session, {}, "t2", database.dialect) == {}


async def test_a_state_in_an_unknown_format_is_left_to_other_processes(database: Database) -> None:
    held = await claimed(database, "t1")
    new = NewPosition(source_identity='"s"', state='{"new": true}', watermark='"w"', format=2)
    async with database.transaction() as session:
        await session.execute(positions.advance(), positions.parameters(held, new))
    await release(database, "t1")
    await beat(database, "t2")
    assert await claim(database, "t2") is None
    async with database.statements() as session:
        assert await positions.formats(session, ["files", "rows"]) == {"files": 2}
        newer = await positions.claim(session, "files", "t2", database.dialect, 2)
    assert newer is not None
    assert newer.state == '{"new": true}'


async def test_a_rewind_and_its_undo_keep_the_format(database: Database) -> None:
    held = await advance(database, await claimed(database, "t1"))
    to = NewPosition(source_identity='"s"', state="{}", watermark='"w"', format=3)
    async with database.transaction() as session:
        await rewind.rewind(session, "files", held.version, to, database.dialect)
        assert await positions.formats(session, ["files"]) == {"files": 3}
        await rewind.undo(session, "files")
        assert await positions.formats(session, ["files"]) == {"files": 1}
        await rewind.rewind(session, "files", held.version + 2, to, database.dialect)
        old = '{"source_identity": "\\"s\\"", "state": "{}", "watermark": "\\"w\\""}'  # as an older release kept it
        await session.execute(watcher_position.update().values(previous=old))
        await rewind.undo(session, "files")
        assert await positions.formats(session, ["files"]) == {"files": 1}


# --- moving


async def test_each_move_raises_the_version_by_one(database: Database) -> None:
    held = await claimed(database, "t1")
    for version in (1, 2, 3):
        held = await advance(database, held, state=f'{{"n": {version}}}')
        assert held == HeldPosition(watcher="files", owner="t1", epoch=1, version=version)
    (row,) = await rows(database, watcher_position)
    assert (row["version"], row["state"], row["watermark"], row["source_identity"]) == (3, '{"n": 3}', '"w"', '"s"')


def others_moved(held: HeldPosition) -> Iterator[HeldPosition]:
    """Beliefs of a holder that are wrong, or no longer true."""
    yield replace(held, version=held.version - 1)
    yield replace(held, version=held.version + 1)
    yield replace(held, epoch=held.epoch - 1)
    yield replace(held, epoch=held.epoch + 1)
    yield replace(held, watcher="unknown")


async def test_a_wrong_epoch_or_version_moves_nothing_and_nothing_of_the_transaction_stays(database: Database) -> None:
    held = await advance(database, await claimed(database, "t1"))
    before = await rows(database, watcher_position)
    for believed in others_moved(held):
        with suppress(PositionLost):
            async with database.transaction() as session:
                await session.execute(setting.insert().values(key="before", value="1"))
                await words.advance(session, believed, source_identity='"x"', state="{}", watermark='"x"')
                pytest.fail("a lost position was moved")
    assert await rows(database, watcher_position) == before
    assert await rows(database, setting) == []


async def test_of_two_moves_from_one_version_exactly_one_lands(database: Database) -> None:
    held = await claimed(database, "t1")
    landed: list[int] = []

    async def move(number: int) -> None:
        with suppress(PositionLost):
            await advance(database, held, state=f'{{"n": {number}}}')
            landed.append(number)

    async with anyio.create_task_group() as tasks:
        for number in range(8):
            tasks.start_soon(move, number)
    (row,) = await rows(database, watcher_position)
    assert (row["version"], row["state"]) == (1, f'{{"n": {landed[0]}}}')
    assert len(landed) == 1


async def test_a_commit_in_flight_loses_to_a_take_over_that_came_first(postgres: Database) -> None:
    """The owner's update waits for the take-over's and then no longer finds its epoch."""
    held = await claimed(postgres, "t1")
    await beat(postgres, "t1", lease=EXPIRED)
    await beat(postgres, "t2")
    lost: list[PositionLost] = []

    async def move() -> None:
        try:
            await advance(postgres, held)
        except PositionLost as error:
            lost.append(error)

    async with anyio.create_task_group() as tasks, postgres.transaction() as session:
        assert await positions.claim(session, "files", "t2", "postgresql") is not None
        tasks.start_soon(move)
        await until_somebody_waits(postgres)
    assert len(lost) == 1
    (row,) = await rows(postgres, watcher_position)
    assert (row["owner"], row["version"]) == ("t2", 0)


async def test_the_position_kept_for_undo_stays_until_it_is_dropped_with_a_reason(database: Database) -> None:
    held = await claimed(database, "t1")
    async with database.transaction() as session:
        await session.execute(watcher_position.update().values(previous='{"state": "kept"}'))
    await advance(database, held)
    loaded = await claim(database, "t1", "files")
    assert loaded is not None
    assert loaded.kept == KeptPosition(state="kept", rows={})
    async with database.transaction() as session:
        await rewind.end_undo(session, "files", "because")
    loaded = await claim(database, "t1", "files")
    assert loaded is not None
    assert loaded.kept is None
    with pytest.raises(Conflict, match="no rewind to undo; because"):
        async with database.transaction() as session:
            await rewind.undo(session, "files")


async def test_anybody_may_read_a_position_without_touching_it(database: Database) -> None:
    async with database.reading() as session:
        assert await positions.read(session, "files") is None
    held = await advance(database, await claimed(database, "t1"), state='{"n": 1}')
    await claim(database, "t1", "rows")
    before = await rows(database, watcher_position)
    async with database.reading() as session:
        assert await positions.read(session, "files") == LoadedPosition(
            held=held, source_identity='"s"', state='{"n": 1}', rows={}
        )
        mine = await positions.held_by(session, "t1")
        assert mine == {"files": held, "rows": HeldPosition(watcher="rows", owner="t1", epoch=1, version=0)}
        assert await positions.held_by(session, "t2") == {}
    assert await rows(database, watcher_position) == before


# --- large sets


async def test_row_changes_apply_in_their_order(database: Database) -> None:
    """First all or what lies below, then members, then inserts: an insert survives all and replaces a value."""

    async def change(
        *,
        clear: bool = False,
        delete_below: int | None = None,
        delete: tuple[int, ...] = (),
        insert: dict[int, int] | None = None,
    ) -> dict[int, int]:
        async with database.transaction() as session:
            await position_rows.change_rows(
                session,
                "files",
                RowDifferences(clear=clear, delete_below=delete_below, delete=delete, insert=insert or {}),
                database.dialect,
            )
        return {row["member"]: row["value"] for row in await rows(database, watcher_position_row)}

    assert await change(insert={1: 10, 2: 20, 3: 30, 4: 40}) == {1: 10, 2: 20, 3: 30, 4: 40}
    assert await change(delete_below=20) == {2: 20, 3: 30, 4: 40}
    assert await change(delete=(2, 99)) == {3: 30, 4: 40}
    assert await change(delete_below=35, delete=(4,), insert={3: 5, 4: 6, 7: 7}) == {3: 5, 4: 6, 7: 7}
    assert await change(insert={7: 8}) == {3: 5, 4: 6, 7: 8}
    assert await change(clear=True, insert={9: 9}) == {9: 9}


async def test_large_sets_are_stored_whole_and_belong_to_one_watcher(database: Database) -> None:
    members = {number: -number for number in range(12_000)}
    async with database.transaction() as session:
        for watcher in ("files", "rows"):
            await position_rows.change_rows(
                session, watcher, RowDifferences(delete_below=None, delete=[], insert=members), database.dialect
            )
        await position_rows.change_rows(
            session, "rows", RowDifferences(delete_below=None, delete=list(members), insert={}), database.dialect
        )
    await beat(database, "t1")
    loaded = await claim(database, "t1", "files")
    assert loaded is not None
    assert loaded.rows == members
    emptied = await claim(database, "t1", "rows")
    assert emptied is not None
    assert emptied.rows == {}


# --- chunks


async def test_chunks_change_with_the_position_of_their_watcher(database: Database) -> None:
    """A rewind (`clear`) drops them, and so does its undo: a watcher that goes on elsewhere begins with new ones."""

    async def change(watcher: str, changes: RowDifferences) -> None:
        async with database.transaction() as session:
            await position_rows.change_rows(session, watcher, changes, database.dialect)

    async def chunks() -> dict[int, bytes]:
        loaded = await claim(database, "t1")
        assert loaded is not None
        return dict(loaded.chunks)

    held = await advance(database, await claimed(database, "t1"), state='{"n": 1}')
    await change("others", RowDifferences(chunks={7: b"theirs"}))
    await change("files", RowDifferences(chunks={1: b"\0one", 2: b"two", 3: b""}))
    assert await chunks() == {1: b"\0one", 2: b"two", 3: b""}
    await change("files", RowDifferences(delete_chunks_below=3, chunks={4: b"four"}))
    assert await chunks() == {3: b"", 4: b"four"}
    async with database.transaction() as session:
        to = NewPosition(source_identity='"s"', state="{}", watermark='"w"', rows=RowDifferences(clear=True))
        await rewind.rewind(session, "files", held.version, to, database.dialect)
    assert await chunks() == {}
    await change("files", RowDifferences(chunks={5: b"five"}))
    async with database.transaction() as session:
        await rewind.undo(session, "files")
    assert await chunks() == {}
    assert [row["number"] for row in await rows(database, watcher_position_chunk)] == [7]
