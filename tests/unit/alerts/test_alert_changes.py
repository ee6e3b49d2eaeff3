"""When alerts begin and end, and in which words: pure functions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from config.features.alerts.settings import AlertConfig
from store.features.alerts.alerts import KnownAlert
from store.keys import Condition, JobDefinition
from store.runs.queue.waiting import QueueOfAsset
from watcher.features.alerts.changes import Rule, changes, rules, targets
from watcher.features.problems.reading import of_waiting_job
from watcher.scheduling.planning.conditions import lacking
from watcher.scheduling.problems.problem import StandingProblem

NOON = datetime(2026, 11, 22, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
WEBHOOK = {"webhook": {"url": "http://alerts/secret-path"}}
FAILING = StandingProblem(
    kind="watcher_failing",
    level="error",
    subject={"watcher": "files"},
    message="it is failing",
    public="",
    assets=frozenset({"landing"}),
)
FAILED = StandingProblem(
    kind="run_failed",
    level="error",
    subject={"dag_id": "load", "run_id": "r"},
    message="it has failed",
    public="",
    assets=frozenset({"landing", "orders"}),
    since=NOON - MINUTE,
)


def rule(**config: Any) -> Rule:
    config = {"on": ["watcher_failing", "run_failed"], "to": WEBHOOK, **config}
    return rules([AlertConfig.model_validate(config)])[0]


def kept(known: Sequence[KnownAlert], found: Any) -> list[KnownAlert]:
    """Return what the database would hold after these changes."""
    every = {each.key: each for each in [*known, *found.added] if each.key not in found.removed}
    return [replace(each, is_fired=each.is_fired or key in found.fired) for key, each in every.items()]


def test_each_change_is_alerted_once() -> None:
    told, known, the_rule = [], list[KnownAlert](), rule()
    for minute, present in enumerate([[], [FAILING], [FAILING], [], [], [FAILING]]):
        found = changes(present, [the_rule], known, NOON + minute * MINUTE)
        told += [(minute, notice.state) for notice in found.notices]
        known = kept(known, found)
    assert told == [(1, "firing"), (3, "resolved"), (5, "firing")]


def test_a_problem_that_ended_too_soon_is_not_alerted() -> None:
    the_rule = rule(**{"for": "5m"})
    begun = changes([FAILING], [the_rule], [], NOON)
    assert (len(begun.added), begun.notices) == (1, [])
    known = kept([], begun)
    assert changes([FAILING], [the_rule], known, NOON + 4 * MINUTE).notices == []
    [notice] = changes([FAILING], [the_rule], known, NOON + 5 * MINUTE).notices
    assert (notice.state, notice.known.since) == ("firing", NOON)
    over = changes([], [the_rule], known, NOON + 5 * MINUTE)
    assert (over.notices, len(over.removed)) == ([], 1)


def test_for_counts_from_the_beginning_of_a_problem_if_it_is_known() -> None:
    assert changes([FAILED], [rule(**{"for": "1m"})], [], NOON).notices[0].known.since == NOON - MINUTE


@pytest.mark.parametrize(
    ("config", "problem", "covered"),
    [
        ({}, FAILING, True),
        ({"on": ["run_failed"]}, FAILING, False),
        ({"assets": ["land*"]}, FAILING, True),
        ({"assets": ["orders"]}, FAILING, False),
        ({"assets": ["orders"]}, FAILED, True),
        ({"jobs": ["other_*"]}, FAILED, False),
        ({"jobs": ["other_*"]}, FAILING, True),
        ({"jobs": ["lo?d"], "assets": ["x"]}, FAILED, False),
        ({}, replace(FAILED, assets=frozenset()), True),
        ({"on": ["running_too_long"]}, replace(FAILED, kind="running_too_long"), True),
        ({"on": ["running_too_long"]}, replace(FAILED, kind="running_too_long", level="info"), False),
    ],
)
def test_a_rule_covers_what_its_patterns_match(config: dict[str, Any], problem: StandingProblem, covered: bool) -> None:
    assert rule(**config).covers(problem) == covered


def test_a_changed_rule_starts_anew_without_ending_the_old_alerts() -> None:
    known = kept([], changes([FAILING], [rule()], [], NOON))
    found = changes([FAILING], [rule(jobs=["x"])], known, NOON)
    assert [notice.state for notice in found.notices] == ["firing"]
    assert found.removed == {known[0].key}


def test_the_id_of_a_rule_holds_no_secret_and_leads_to_its_target() -> None:
    entry = AlertConfig.model_validate({"on": ["run_failed"], "to": WEBHOOK})
    [(rule_id, target)] = targets([entry]).items()
    assert rule_id == rules([entry])[0].id
    assert target.webhook is not None
    assert "secret-path" not in repr(target)


DEADLINE = timedelta(hours=2)


def waiting_job(schedule: Condition, **queued_at: datetime) -> StandingProblem | None:
    names = {"landing", "customers", "refunds"}
    queues = [
        QueueOfAsset(dag_id="load", asset_id=1, asset=name, queued=int(name in queued_at), oldest=queued_at.get(name))
        for name in names
    ]
    definition = JobDefinition(schedule=schedule, deadline=DEADLINE)
    return of_waiting_job("load", definition, DEADLINE, queues, {"daily": {"refunds"}}, NOON)


def test_a_deadline_names_the_missing_assets() -> None:
    problem = waiting_job({"all": ["landing", "customers"]}, landing=NOON - 6 * 60 * MINUTE)
    assert problem is not None
    assert problem.message.startswith("`customers` has not come since 2026-11-22 06:00 UTC: load waits for it")
    assert (problem.since, problem.subject) == (NOON - 4 * 60 * MINUTE, {"dag_id": "load"})


@pytest.mark.parametrize(
    ("schedule", "queued"),
    [
        ({"all": ["landing", "customers"]}, {}),
        ({"all": ["landing", "customers"]}, {"landing": NOON - 119 * MINUTE}),
        ({"any": ["landing", "customers"]}, {"landing": NOON - 600 * MINUTE}),
        ({"all": ["landing", {"alias": "daily"}]}, dict.fromkeys(("landing", "refunds"), NOON - 600 * MINUTE)),
    ],
)
def test_a_condition_that_is_met_not_begun_or_young_is_within_its_deadline(
    schedule: Condition, queued: dict[str, datetime]
) -> None:
    assert waiting_job(schedule, **queued) is None


def test_missing_assets_are_described_as_the_condition_combines_them() -> None:
    condition: Condition = {"all": ["landing", {"any": ["customers", {"alias": "daily"}]}, "more"]}
    assert lacking(condition, {"landing"}, {}) == "`customers` or the alias `daily` and `more`"
