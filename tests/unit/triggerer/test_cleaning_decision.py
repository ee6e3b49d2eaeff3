"""What may go: only what every job has loaded that was owed it, and each file once."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from store.detection.cleanings import Cleaning, FilesInHand
from store.fates import AT_A_JOB, HAS_LOADED, Fate
from store.runs.fates import ConsumedBy, EventAtJob
from triggers.cleaning import Outcome
from watcher.triggerer.cleaning.decision import PASSES, decide, next_numbers, passed

NOW = datetime(2026, 11, 27, 12, tzinfo=UTC)
WEEK = timedelta(days=7)
FATES = [fate for fate in AT_A_JOB if fate is not Fate.NOT_TAKEN]
OUTCOMES: list[Outcome] = list(get_args(Outcome))


def at(dag_id: str, fate: str, days_ago: float = 30) -> EventAtJob:
    return EventAtJob(dag_id=dag_id, fate=Fate(fate), ended_at=NOW - timedelta(days=days_ago))


def in_run(dag_id: str, state: str) -> EventAtJob:
    consumer = ConsumedBy(
        id=1,
        event_id=1,
        dag_id=dag_id,
        run_id="r",
        state=state,
        reason=None,
        warning=None,
        bad_records=None,
        end_date=None,
    )
    return replace(at(dag_id, state), run=consumer)


def marked(dag_id: str, fate: str) -> EventAtJob:
    return replace(at(dag_id, fate), is_marked=True)


@pytest.mark.parametrize(
    ("owed", "fates", "verdict", "reason"),
    [
        ([], [], "stay", "no_jobs"),
        ([], [at("later", "loaded")], "stay", "no_jobs"),
        (["a"], [at("a", "loaded")], "clean", None),
        (["a"], [at("a", "loaded"), at("later", "failed")], "clean", None),
        (["a"], [at("a", "loaded"), at("later", "queued")], "clean", None),
        (["a"], [at("a", "loaded"), in_run("later", "queued")], "wait", "running"),
        (["a"], [at("a", "loaded", 6.99)], "wait", "after"),
        (["a"], [at("a", "loaded", 7)], "clean", None),
        (["a", "b"], [at("a", "loaded"), at("b", "loaded", 1)], "wait", "after"),
        (["a", "b"], [at("a", "loaded"), at("b", "queued")], "wait", "queued"),
        (["a", "b"], [at("a", "loaded"), in_run("b", "running")], "wait", "running"),
        (["a", "b"], [at("a", "loaded"), at("b", "failed")], "stay", "failed"),
        (["a", "b"], [at("a", "loaded"), marked("b", "loaded")], "stay", "marked"),
        (["a", "b"], [at("a", "loaded"), marked("b", "failed")], "stay", "failed"),
        (["a", "b"], [at("a", "loaded"), at("b", "unknown")], "stay", "unknown"),
        (["a", "b"], [at("a", "loaded"), at("b", "dropped")], "stay", "dropped"),
        (["a", "b"], [at("a", "loaded")], "stay", "unknown"),
    ],
)
def test_files_go_when_every_job_that_was_owed_them_has_loaded_them(
    owed: list[str], fates: list[EventAtJob], verdict: str, reason: str | None
) -> None:
    decision = decide(owed, fates, WEEK, NOW)
    assert (decision.verdict, decision.reason) == (verdict, reason)
    if verdict == "wait":
        assert decision.look_at is not None


EVENTS = st.lists(
    st.builds(
        at, st.sampled_from("abc"), st.sampled_from(FATES), st.floats(0, 20, allow_nan=False).map(lambda days: days)
    ),
    max_size=5,
    unique_by=lambda each: each.dag_id,
)


@given(owed=st.sets(st.sampled_from("abc")), fates=EVENTS, days=st.integers(0, 10))
def test_nothing_goes_that_was_not_loaded_long_enough_ago(owed: set[str], fates: list[EventAtJob], days: int) -> None:
    after = timedelta(days=days)
    decision = decide(owed, fates, after, NOW)
    loaded = {
        each.dag_id for each in fates if each.fate in HAS_LOADED and each.ended_at and each.ended_at + after <= NOW
    }
    may_go = bool(owed) and owed <= loaded
    assert (decision.verdict == "clean") == may_go
    if decision.verdict != "clean" and decision.reason != "no_jobs":
        assert decision.look_at is not None
        assert decision.look_at > NOW


@given(
    owed=st.sets(st.sampled_from("abc"), min_size=1), fates=EVENTS, days=st.integers(0, 10), later=st.integers(0, 30)
)
def test_a_look_comes_no_later_than_what_it_waits_for(
    owed: set[str], fates: list[EventAtJob], days: int, later: int
) -> None:
    after = timedelta(days=days)
    decision = decide(owed, fates, after, NOW)
    if decision.look_at is None:
        return
    ends = NOW + timedelta(minutes=later)
    afterwards = [EventAtJob(dag_id=dag_id, fate=Fate.LOADED, ended_at=ends) for dag_id in owed]
    before = max(decision.look_at, ends + after)
    assert decide(owed, afterwards, after, before).verdict == "clean"


@given(
    files=st.integers(0, 12),
    most=st.integers(1, 5),
    chosen=st.lists(st.sampled_from(OUTCOMES), min_size=200, max_size=200),
)
def test_every_file_is_gone_through_and_none_after_it_was_removed(files: int, most: int, chosen: list[Outcome]) -> None:
    cleaning = Cleaning(event_id=1, owed=["a"])
    done: set[int] = set()
    gone: dict[int, int] = {}
    outcomes = iter(chosen)
    for _ in range(PASSES + 2):
        seen: set[int] = set()
        while True:
            numbers = next_numbers(cleaning, files, most)
            assert not done & {*numbers}
            assert not seen & {*numbers}
            step = {number: next(outcomes) for number in numbers}
            seen |= step.keys()
            done |= {number for number, outcome in step.items() if outcome == "done"}
            for number in (number for number, outcome in step.items() if outcome == "gone"):
                gone[number] = gone.get(number, 0) + 1
            cleaning = passed(cleaning, step, files)
            if cleaning.state != "waiting":
                break
        assert cleaning.removed == len(done)
        if cleaning.state == "done":
            break
        assert cleaning.staying
        assert cleaning.reason in cleaning.staying.values()
    if cleaning.state == "done":
        assert all(number in done or gone.get(number) for number in range(files))


@given(st.dictionaries(st.integers(0, 1000), st.lists(st.integers(-(2**63), 2**63 - 1), max_size=2)), st.booleans())
def test_what_is_in_hand_is_read_as_it_was_written(files: dict[int, list[int]], is_copied: bool) -> None:
    in_hand = FilesInHand(place="12", files=files, outcomes={7: "exists"}, is_copied=is_copied)
    assert FilesInHand.from_json(in_hand.to_json()) == in_hand
    assert FilesInHand.from_json(None) is None
