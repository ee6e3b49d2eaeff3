"""What every store backend owes, whoever wrote it (docs/writing-a-store-backend.md)."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from anyio import to_thread
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import Session

from store.base import NEVER_EXPIRE, Scope
from store.errors import InvalidValue
from store.values import to_json
from tests.contract.conftest import Calls, Subject

few_examples = settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])

characters = st.characters(exclude_categories=["Cc", "Cs"])
keys = st.text(characters, min_size=1, max_size=40)
scalars = (
    st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"]))
)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner | st.none(), max_size=4) | st.dictionaries(st.text(characters), inner, max_size=4),
)


async def test_a_value_comes_back_as_the_text_that_was_given(store: Calls, scope: Scope) -> None:
    text = '{"b": 1,  "a": [1.50, "\\u00e4"], "b2": {"z": null, "y": true}}'
    await store.set(scope, "key", text)
    assert await store.get(scope, "key") == text


@few_examples
@given(key=keys, value=values)
async def test_any_json_value_survives_under_any_key(store: Calls, scope: Scope, key: str, value: Any) -> None:
    await store.set(scope, key, to_json(value))
    stored = await store.get(scope, key)
    assert stored is not None
    assert json.loads(stored) == value


async def test_integers_beyond_64_bits_keep_every_digit(store: Calls, scope: Scope) -> None:
    await store.set(scope, "key", to_json(2**200 + 1))
    assert await store.get(scope, "key") == str(2**200 + 1)


async def test_the_order_of_keys_in_an_object_stays(store: Calls, scope: Scope) -> None:
    await store.set(scope, "key", to_json({"z": 1, "a": 2, "m": 3}))
    assert list(json.loads(await store.get(scope, "key") or "")) == ["z", "a", "m"]


@pytest.mark.parametrize("key", ["a/b", "a/", "/a", "ключ", "🦆" * 512, "a b", "%2F", "..", "A", "a"])
async def test_keys_with_slashes_and_unicode_are_kept_apart(store: Calls, scope: Scope, key: str) -> None:
    others = ["a/b", "a", "A", "a%2Fb", "b"]
    for other in others:
        await store.set(scope, other, to_json(f"value of {other}"))
    await store.set(scope, key, '"mine"')
    assert await store.get(scope, key) == '"mine"'
    for other in others:
        assert other == key or await store.get(scope, other) == to_json(f"value of {other}")


async def test_a_second_set_replaces_the_first(store: Calls, scope: Scope) -> None:
    await store.set(scope, "key", "1")
    await store.set(scope, "key", "2")
    assert await store.get(scope, "key") == "2"


async def test_what_was_never_set_is_none(store: Calls, scope: Scope) -> None:
    assert await store.get(scope, "key") is None


async def test_delete_removes_one_key(store: Calls, scope: Scope) -> None:
    await store.set(scope, "key", "1")
    await store.set(scope, "other", "2")
    await store.delete(scope, "key")
    assert (await store.get(scope, "key"), await store.get(scope, "other")) == (None, "2")


async def test_delete_and_clear_of_nothing_do_nothing(store: Calls, scope: Scope) -> None:
    await store.delete(scope, "key")
    await store.clear(scope)
    await store.set(scope, "other", "1")
    await store.delete(scope, "key")
    assert await store.get(scope, "other") == "1"


async def test_clear_removes_all_keys_of_its_scope_and_no_others(store: Calls, scope: Scope, new_scope: Scope) -> None:
    for key in ("one", "two/three", "four"):
        await store.set(scope, key, "1")
    await store.set(new_scope, "one", "2")
    await store.clear(scope)
    assert [await store.get(scope, key) for key in ("one", "two/three", "four")] == [None, None, None]
    assert await store.get(new_scope, "one") == "2"


async def test_a_key_can_be_set_again_after_delete_and_clear(store: Calls, scope: Scope) -> None:
    await store.set(scope, "key", "1")
    await store.delete(scope, "key")
    await store.set(scope, "key", "2")
    await store.clear(scope)
    await store.set(scope, "key", "3")
    assert await store.get(scope, "key") == "3"


async def test_each_mapped_task_instance_has_its_own_state(store: Calls, subject: Subject) -> None:
    task = await subject.new_task()
    first, second = replace(task, map_index=0), replace(task, map_index=1)
    for one, value in ((task, "-1"), (first, "0"), (second, "1")):
        await store.set(one, "key", value)
    await store.clear(first)
    assert [await store.get(one, "key") for one in (task, first, second)] == ["-1", None, "1"]


async def test_clear_includes_mapped_siblings_on_request(store: Calls, subject: Subject) -> None:
    task = await subject.new_task()
    other_task = replace(task, task_id="report")
    siblings = [replace(task, map_index=index) for index in (0, 1, 2)]
    for one in (*siblings, other_task):
        await store.set(one, "key", "1")
    await store.clear(siblings[0], all_map_indices=True)
    assert [await store.get(one, "key") for one in siblings] == [None, None, None]
    assert await store.get(other_task, "key") == "1"


async def test_what_one_kind_of_caller_wrote_the_other_reads(subject: Subject, scope: Scope) -> None:
    with_loop, without = (Calls(backend=subject.backend, without_loop=flag) for flag in (False, True))
    await with_loop.set(scope, "key", "1")
    assert await without.get(scope, "key") == "1"
    await without.delete(scope, "key")
    assert await with_loop.get(scope, "key") is None


# --- what is refused changes nothing


@pytest.mark.parametrize(
    "text",
    [
        "null",
        " null ",
        "NaN",
        "Infinity",
        "[-Infinity]",
        "1e999",
        '{"a": 1e400}',
        r'"\ud800"',
        '"\udfff"',
        r'{"\udc00": 1}',
        "",
        "{",
        "'a'",
        "1 2",
    ],
)
async def test_a_text_that_is_no_storable_json_is_refused(store: Calls, scope: Scope, text: str) -> None:
    await store.set(scope, "key", "1")
    with pytest.raises(InvalidValue):
        await store.set(scope, "key", text)
    assert await store.get(scope, "key") == "1"


@pytest.mark.parametrize("key", ["", "k" * 513, "a\nb", "a\x00", "\x7f", "a\ud800"])
async def test_an_impossible_key_is_refused_by_every_method(store: Calls, scope: Scope, key: str) -> None:
    with pytest.raises(InvalidValue):
        await store.set(scope, key, "1")
    with pytest.raises(InvalidValue):
        await store.get(scope, key)
    with pytest.raises(InvalidValue):
        await store.delete(scope, key)


async def test_an_escaped_pair_of_surrogates_is_the_character_it_stands_for(store: Calls, scope: Scope) -> None:
    await store.set(scope, "key", r'"\ud83e\udd86"')
    assert json.loads(await store.get(scope, "key") or "") == "🦆"


async def test_deep_nesting_is_refused_before_any_reader_fails_on_it(store: Calls, scope: Scope) -> None:
    await store.set(scope, "key", "[" * 200 + "]" * 200)
    for text in ("[" * 201 + "]" * 201, '{"a":' * 100_000 + "1" + "}" * 100_000):
        with pytest.raises(InvalidValue, match="nested deeper"):
            await store.set(scope, "key", text)
    await store.set(scope, "brackets in a string", json.dumps("[" * 300))


# --- expiry


async def test_an_entry_is_gone_after_its_expiry(store: Calls, subject: Subject) -> None:
    task = await subject.new_task()
    await store.set(task, "past", "1", datetime.now(UTC) - timedelta(hours=1))
    await store.set(task, "future", "2", datetime.now(UTC) + timedelta(hours=1))
    await store.set(task, "never", "3", NEVER_EXPIRE)
    await store.set(task, "default", "4")
    assert [await store.get(task, key) for key in ("past", "future", "never", "default")] == [None, "2", "3", "4"]


async def test_the_expiry_of_the_last_set_counts(store: Calls, subject: Subject) -> None:
    task = await subject.new_task()
    await store.set(task, "key", "1", datetime.now(UTC) - timedelta(hours=1))
    await store.set(task, "key", "2", NEVER_EXPIRE)
    assert await store.get(task, "key") == "2"
    await store.set(task, "key", "3", datetime.now(UTC) - timedelta(hours=1))
    assert await store.get(task, "key") is None


async def test_an_expiry_without_time_zone_or_for_an_asset_is_refused(store: Calls, subject: Subject) -> None:
    naive = datetime(2026, 11, 20)  # noqa: DTZ001  the subject
    for scope, expires_at in (
        (await subject.new_task(), naive),
        (await subject.new_asset(), datetime.now(UTC)),
        (await subject.new_asset(), NEVER_EXPIRE),
    ):
        with pytest.raises(InvalidValue):
            await store.set(scope, "key", "1", expires_at)
        assert await store.get(scope, "key") is None


async def test_cleanup_keeps_entries_that_have_not_expired(subject: Subject, store: Calls) -> None:
    task = await subject.new_task()
    await store.set(task, "past", "1", datetime.now(UTC) - timedelta(hours=1))
    await store.set(task, "future", "2", datetime.now(UTC) + timedelta(hours=1))
    subject.backend.cleanup()
    assert (await store.get(task, "past"), await store.get(task, "future")) == (None, "2")


# --- the caller's session


class _GivenUp(Exception):
    """Raised by a caller whose own work failed."""


async def test_a_backend_works_in_a_session_and_never_commits_it(subject: Subject, scope: Scope) -> None:
    """Outside the metadata database a backend ignores the session: then its writes are there at once and stay."""
    backend = subject.backend
    await backend.aset(scope, "deleted", "1")
    with suppress(_GivenUp):
        async with subject.database.transaction() as connection, AsyncSession(connection) as session:
            await backend.aset(scope, "set", "2", session=session)
            await backend.adelete(scope, "deleted", session=session)
            assert await backend.aget(scope, "set", session=session) == "2"
            assert await backend.aget(scope, "deleted", session=session) is None
            await backend.aclear(scope, session=session)
            assert await backend.aget(scope, "set", session=session) is None
            raise _GivenUp
    kept = (None, "1") if subject.lives_in_the_database else (None, None)
    assert (await backend.aget(scope, "set"), await backend.aget(scope, "deleted")) == kept


async def test_without_a_loop_nobody_waits_in_a_session_or_on_the_loops_own_thread(
    subject: Subject, scope: Scope
) -> None:
    if subject.has_its_own_eight:
        pytest.skip("this backend waits for no loop: all eight methods are its own")
    with pytest.raises(InvalidValue, match="await aset instead"):
        subject.backend.set(scope, "key", "1")
    with Session() as session, pytest.raises(InvalidValue, match="await aget instead"):
        await to_thread.run_sync(lambda: subject.backend.get(scope, "key", session=session))


async def test_only_the_callers_commit_keeps_a_write(subject: Subject, scope: Scope) -> None:
    async with subject.database.transaction() as connection, AsyncSession(connection) as session:
        await subject.backend.aset(scope, "key", "1", session=session)
    assert await subject.backend.aget(scope, "key") == "1"
