"""Problems of one cause are one, the worst comes first, and nothing is left out without a word."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from watcher.scheduling.problems.problem import KINDS, LEVELS, Level, StandingProblem, cause_of, grouped, page_of

NOON = datetime(2026, 11, 26, 12, tzinfo=UTC)


def of_watcher(name: str, error: str, **more: Any) -> StandingProblem:
    message = f"the watcher {name} is failing: {error}"
    words: dict[str, Any] = {"kind": "watcher_failing", "level": "error", "since": NOON, **more}
    return StandingProblem(
        subject={"watcher": name}, message=message, public="p", cause=cause_of(error, name), remedy="mend it", **words
    )


def test_watchers_that_fail_for_one_reason_are_one_problem_that_goes_by_the_oldest() -> None:
    late, early = NOON, NOON - timedelta(hours=1)
    present = [
        of_watcher("b", "no answer from db.example.com within 30.2 s: b waits", since=late, next_try_at=NOON),
        of_watcher("a", "no answer from db.example.com within 30.7 s: a waits", since=late),
        of_watcher("c", "no answer from db.example.com within 31 s: c waits", since=early),
        of_watcher("d", "no such table", since=early),
    ]
    many, alone = grouped(present)
    assert (many.count, many.oldest.subject, many.oldest.since, many.next_try_at) == (3, {"watcher": "c"}, early, NOON)
    assert many.sentence == (
        "the watcher c is failing: no answer from db.example.com within 31 s: c waits (and 2 more like it: a, b); mend it"
    )
    assert (alone.count, alone.message) == (1, "the watcher d is failing: no such table")


def test_a_large_group_names_its_first_members_and_says_how_many_there_are() -> None:
    (group,) = grouped(of_watcher(f"w{number:03}", "gone") for number in range(400))
    assert group.message == "the watcher w000 is failing: gone (and 399 more like it: w001, w002, w003, w004, w005, …)"


def test_the_worst_comes_first_whatever_the_order_of_reading() -> None:
    a_week_ago = NOON - timedelta(days=7)
    present = [
        of_watcher("old", "x", kind="finding", level="warning", since=a_week_ago),
        of_watcher("new", "y", kind="finding", level="error"),
        of_watcher("one", "z"),
        of_watcher("two", "q", kind="not_ready"),
        of_watcher("info", "r", kind="finding", level="info", since=a_week_ago),
    ]
    order = [group.oldest.subject["watcher"] for group in grouped(present)]
    assert order == ["two", "one", "new", "old", "info"]


@given(
    st.lists(
        st.tuples(st.sampled_from(KINDS), st.sampled_from(LEVELS), st.sampled_from("abc"), st.integers(0, 30)),
        max_size=60,
    )
)
def test_every_problem_is_in_one_group_and_no_two_groups_share_their_identity(
    drawn: list[tuple[str, Level, str, int]],
) -> None:
    once = {(kind, name): (level, cause) for kind, level, cause, name in drawn}
    present = [of_watcher(f"w-{name}", cause, kind=kind, level=level) for (kind, name), (level, cause) in once.items()]
    groups = grouped(present)
    assert sorted(map(id, present)) == sorted(id(member) for group in groups for member in group.members)
    identities = [(group.oldest.kind, group.oldest.subject["watcher"]) for group in groups]
    assert len(identities) == len(set(identities))
    assert [LEVELS.index(group.oldest.level) for group in groups] == sorted(
        LEVELS.index(group.oldest.level) for group in groups
    )


@pytest.mark.parametrize(
    ("subject", "page"),
    [
        ({"dag_id": "load", "run_id": "a/b"}, "runs/load/a%2Fb"),
        ({"dag_id": "load"}, "jobs/load"),
        ({"watcher": "files", "check": "clock"}, "watchers/files"),
        ({"asset": "orders"}, "assets"),
        ({"sentence": "x"}, ""),
    ],
)
def test_each_subject_has_a_page(subject: dict[str, str], page: str) -> None:
    assert page_of(subject) == page


def test_a_group_of_failed_runs_leads_to_their_list() -> None:
    runs = [
        StandingProblem(
            kind="run_failed",
            level="error",
            subject={"dag_id": "load", "run_id": f"r{number}"},
            message="m",
            public="p",
            cause="no memory",
        )
        for number in range(2)
    ]
    (group,) = grouped(runs)
    assert (group.page, group.count) == ("runs?state=failed&job=load", 2)
