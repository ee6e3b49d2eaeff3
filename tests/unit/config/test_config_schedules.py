from __future__ import annotations

from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from config.errors import KeyPath
from config.models import Configuration
from config.models.event_filters import faults_of_where
from config.models.schedules import (
    AliasCondition,
    All,
    Any_,
    AssetCondition,
    Condition,
    CronConfig,
    Schedule,
    ScheduleField,
    needs_several,
    references,
    schedule_to_json,
)
from config.names import Scope

A, B, C = AssetCondition("a"), AssetCondition("b"), AliasCondition("c")
SCOPE = Scope(folder=Path(), assets={"a", "b"}, aliases={"c"})
WRONG_PATH = (
    r"must be `partition_key`, or a path below `extra` such as `extra.region` (a dot in a name is written `\.`)"
)
ADAPTER: TypeAdapter[Schedule | None] = TypeAdapter(ScheduleField)


def parse(value: object) -> Schedule | None:
    return ADAPTER.validate_python(value, context=SCOPE)


@pytest.mark.parametrize(
    ("written", "schedule"),
    [
        (None, None),
        ("a", Schedule(condition=A)),
        (["a", "b"], Schedule(condition=All((A, B)))),
        ({"alias": "c"}, Schedule(condition=C)),
        ({"all": ["a", {"any": ["b", {"alias": "c"}]}]}, Schedule(condition=All((A, Any_((B, C)))))),
        ({"any": [["a", "b"], "b"]}, Schedule(condition=Any_((All((A, B)), B)))),
        ({"asset": "a"}, Schedule(condition=A)),
        (
            {"asset": "a", "where": {r"extra.a\.b": [1, None]}, "or_cron": "@daily"},
            Schedule(condition=AssetCondition("a", {r"extra.a\.b": [1, None]}), cron=CronConfig("@daily")),
        ),
        (
            {"any": ["a", {"alias": "c", "where": {"partition_key": "eu"}}]},
            Schedule(condition=Any_((A, AliasCondition("c", {"partition_key": "eu"})))),
        ),
        ({"cron": "0 * * * *"}, Schedule(cron=CronConfig("0 * * * *"))),
        (
            {"all": ["a", "b"], "cron": "@daily", "timezone": "Europe/Berlin"},
            Schedule(condition=All((A, B)), cron=CronConfig("@daily", "Europe/Berlin"), joint=True),
        ),
        ({"any": ["a"], "cron": "@daily"}, Schedule(condition=Any_((A,)), cron=CronConfig("@daily"), joint=True)),
        ({"cron": "@daily", "timezone": "Europe/Berlin"}, Schedule(cron=CronConfig("@daily", "Europe/Berlin"))),
        ({"any": ["a"], "or_cron": "0 6 * * 1-5"}, Schedule(condition=Any_((A,)), cron=CronConfig("0 6 * * 1-5"))),
        ({"alias": "c", "or_cron": "@hourly", "timezone": "UTC"}, Schedule(condition=C, cron=CronConfig("@hourly"))),
    ],
)
def test_a_schedule_is_read(written: Any, schedule: Schedule | None) -> None:
    assert parse(written) == schedule


@pytest.mark.parametrize(
    ("written", "faults"),
    [
        ([], {(): "is an empty condition, which would never be met; name at least one asset"}),
        ({"all": []}, {("all",): "is an empty condition, which would never be met; name at least one asset"}),
        ({}, {(): "must be an asset's name, or one of `{all: [...]}`, `{any: [...]}` and `{alias: name}`"}),
        (5, {(): "must be an asset's name, or one of `{all: [...]}`, `{any: [...]}` and `{alias: name}`"}),
        (
            {"all": ["a"], "any": ["b"]},
            {(): "must be an asset's name, or one of `{all: [...]}`, `{any: [...]}` and `{alias: name}`"},
        ),
        (
            {"any": ["a", {"cron": "@daily"}]},
            {("any", 1): "must be an asset's name, or one of `{all: [...]}`, `{any: [...]}` and `{alias: name}`"},
        ),
        ({"any": "a"}, {("any",): "must be a list of conditions: write `[a]`"}),
        ({"asset": "x", "where": {"extra.a": 1}}, {("asset",): "unknown asset `x`; known: `a`, `b`"}),
        ({"asset": 5}, {("asset",): "must be an asset's name"}),
        (
            {"asset": "a", "where": "eu"},
            {("where",): "must be a mapping of paths to values, such as `{extra.region: eu}`"},
        ),
        ({"asset": "a", "where": {}}, {("where",): "asks for nothing: name a path, or remove it"}),
        (
            ["a", {"asset": "a", "where": {"region": "eu", "extra": 1, "extra..a": 1, r"extra.a\n": 1}}],
            {(1, "where", each): WRONG_PATH for each in ("region", "extra", "extra..a", r"extra.a\n")},
        ),
        (
            {"asset": "a", "where": {"extra.a": [], "extra.b": date(2026, 11, 20), "partition_key": 7}},
            {
                ("where", "extra.a"): "is an empty list, which no event would match; name at least one value",
                (
                    "where",
                    "extra.b",
                ): "is compared as JSON, which has no such value: put a date in quotes, leave .nan and .inf out",
                ("where", "partition_key"): "is compared with partition keys, which are texts: put it in quotes",
            },
        ),
        (
            {"any": [{"asset": "a", "where": {"extra.n": n}} for n in range(101)]},
            {(): "has more than 100 references with `where`; divide the job"},
        ),
        ({"al": ["a"]}, {("al",): "is not a key here; did you mean `all`?"}),
        ({"and": ["a", "b"]}, {("and",): "is not a key here; did you mean `all`?"}),
        ({"All-Of": ["a", "b"]}, {("All-Of",): "is not a key here; did you mean `all`?"}),
        ({"Either": ["a", "b"]}, {("Either",): "is not a key here; did you mean `any`?"}),
        ({"any": ["a", {"&&": ["a", "b"]}]}, {("any", 1, "&&"): "is not a key here; did you mean `all`?"}),
        ("[a, b]", {(): "is one text and must be one name: write the list `[a, b]`"}),
        ("a/b", {(): "is one text and must be one name: write the list `[a, b]`"}),
        ({"asset": ["a", "b"]}, {("asset",): "must be an asset's name; for several write `{all: [a, b]}`, or `any`"}),
        ("a & b", {(): "is one text and must be one name: write the list `[a, b]`"}),
        ("a, b and a", {(): "is one text and must be one name: write the list `[a, b, a]`"}),
        ("a OR b", {(): "is one text and must be one name: write `{any: [a, b]}`, or `[a, b]` if all are needed"}),
        (["a", "a b"], {(1,): "is one text and must be one name: write the list `[a, b]`"}),
        ({"alias": ["c"]}, {("alias",): "must be an alias's name"}),
        (
            ["a", "x", {"any": ["y"]}],
            {(1,): "unknown asset `x`; known: `a`, `b`", (2, "any", 0): "unknown asset `y`; known: `a`, `b`"},
        ),
        ({"alias": "x"}, {("alias",): "unknown alias `x`; known: `c`"}),
        ("c", {(): "`c` is an alias, not an asset: write `{alias: c}`"}),
        ({"alias": "a"}, {("alias",): "`a` is an asset, not an alias: write the name alone"}),
        ("0 * * * *", {(): 'unknown asset `0 * * * *`; known: `a`, `b`; a time is written `{cron: "0 * * * *"}`'}),
        (
            {"cron": "@daily", "or_cron": "@daily", "any": ["a"]},
            {(): "has both `cron` (time and events) and `or_cron` (time or events); remove one of them"},
        ),
        (
            {"or_cron": "@daily"},
            {(): "must be an asset's name, or one of `{all: [...]}`, `{any: [...]}` and `{alias: name}`"},
        ),
        ({"any": ["a"], "timezone": "UTC"}, {("timezone",): "has no effect without `cron` or `or_cron`; remove it"}),
        (
            {"cron": "@daily", "timezone": "Europe/Berln"},
            {("timezone",): "is not a time zone of the IANA database; did you mean `Europe/Berlin`?"},
        ),
        (
            {"cron": "@daily", "timezone": [5]},
            {("timezone",): "is not a time zone of the IANA database; check its spelling"},
        ),
    ],
)
def test_an_invalid_schedule_is_refused_with_reason_and_place(written: Any, faults: dict[KeyPath, str]) -> None:
    with pytest.raises(ValidationError) as refused:
        parse(written)
    assert {error["loc"]: error["msg"] for error in refused.value.errors()} == faults


@pytest.mark.parametrize(
    "expression",
    [
        "",
        "hourly",
        "* * * *",
        "* * * * * *",
        "61 * * * *",
        "0 0 31 2 *",
        "R * * * *",
        "H * * * *",
        "r(0-5) * * * *",
        5,
        None,
        "@never",
    ],
)
def test_a_cron_expression_that_never_fires_or_is_random_is_refused(expression: Any) -> None:
    with pytest.raises(ValidationError, match="is not a cron expression that ever fires"):
        parse({"cron": expression})


CONDITIONS = st.recursive(
    st.sampled_from([A, B, C, AssetCondition("b", {"extra.a": 1}), AliasCondition("c", {"partition_key": ["x"]})]),
    lambda inner: st.builds(
        lambda kind, of: kind(tuple(of)), st.sampled_from([All, Any_]), st.lists(inner, min_size=1, max_size=3)
    ),
    max_leaves=8,
)
CRONS = st.none() | st.builds(
    CronConfig, st.sampled_from(["0 * * * *", "@daily"]), st.sampled_from(["UTC", "Europe/Berlin"])
)


@given(CONDITIONS | st.none(), CRONS)
def test_the_json_form_reads_back(condition: Condition | None, cron: CronConfig | None) -> None:
    if condition is None and cron is None:
        return
    read = parse(schedule_to_json(Schedule(condition=condition, cron=cron)))
    assert read is not None
    assert read.cron == cron
    assert list(references(read.condition)) == list(references(condition))
    assert needs_several(read.condition) == needs_several(condition)


@pytest.mark.parametrize(
    ("written", "several"),
    [
        ("a", False),
        (["a"], False),
        ({"any": ["a", "b"]}, False),
        (["a", "b"], True),
        ({"any": ["a", {"all": ["a", "b"]}]}, True),
    ],
)
def test_a_condition_needs_several_events_where_all_has_several_parts(written: Any, several: bool) -> None:
    schedule = parse(written)
    assert schedule is not None
    assert needs_several(schedule.condition) is several


JOB = "assets: {{a: , b: }}\njobs:\n  j:\n    spark: {{application: a.py}}\n    schedule: {schedule}\n    batch: {{mode: each}}"


@pytest.mark.parametrize("schedule", ["a", "[a]", "{any: [a, b]}", '{cron: "@daily"}', "null"])
def test_one_run_for_each_event_goes_with_one_asset_or_any(
    load_text: Callable[..., Configuration], schedule: str
) -> None:
    assert load_text(JOB.format(schedule=schedule)).jobs["j"].batch.mode == "each"


@pytest.mark.parametrize("schedule", ["[a, b]", "{any: [a, [a, b]]}"])
def test_one_run_for_each_event_does_not_go_with_all(problems: Callable[..., list[str]], schedule: str) -> None:
    assert problems(JOB.format(schedule=schedule)) == [
        "watchers.yaml:7: jobs.j.batch.mode: `each` cannot go with a schedule that needs `all` of several: use `any`, or `mode: coalesce`"
    ]


@pytest.mark.parametrize(
    ("value", "operator"),
    [
        ("> 5", ">"),
        (">=5", ">="),
        ("!= eu", "!="),
        ("<> eu", "<>"),
        ("== 5", "=="),
        ("=~ ^eu", "=~"),
        ("!eu", "!"),
        ("≥ 5", "≥"),
        ("in (eu, us)", "in"),
        ("NOT IN [eu]", "NOT IN"),
        ("between 1 and 5", "between"),
        ("like 'eu%'", "like"),
        ({"gt": 5}, "gt"),
        ({"$gte": 5, "$lt": 9}, "$gte"),
        ({"not_in": ["eu"]}, "not_in"),
        ({"startsWith": "eu"}, "startsWith"),
        ({">": 5}, ">"),
        (["> 5", "< 9"], ">"),
    ],
)
def test_a_comparison_in_a_where_is_refused(value: Any, operator: str) -> None:
    [(path, sentence)] = faults_of_where({"extra.count": value}, ("where",))
    assert path == ("where", "extra.count")
    assert sentence.startswith(f"is compared for equality, and `{operator}` is no comparison here")


@pytest.mark.parametrize(
    "value",
    [
        *("<none>", "-> b", "in transit", "~/data", "like new", "not paid", "in", "=", "between", ["> 5"], [{"gt": 5}]),
        *({"before": 1, "after": 2}, {"gt": 5, "unit": "kg"}, {}),
    ],
)
def test_a_value_that_only_looks_like_a_comparison_is_compared(value: Any) -> None:
    assert [*faults_of_where({"extra.state": value}, ("where",))] == []


@pytest.mark.parametrize(
    ("path", "sign"),
    [("extra.count >", ">"), ("extra.count >=", ">="), ("extra.count__gt", "gt"), ("extra.a !=", "!=")],
)
def test_a_comparison_in_a_path_of_a_where_is_refused(path: str, sign: str) -> None:
    [(_, sentence)] = faults_of_where({path: 5}, ())
    assert sentence.startswith(f"is compared for equality, and `{sign}` is no comparison here")


@pytest.mark.parametrize(
    "path", ["extra.a>b", "extra.count", "extra.gt", "extra.a_in", "extra.=", "extra.weight in kg"]
)
def test_a_path_that_only_looks_like_a_comparison_is_a_path(path: str) -> None:
    assert [*faults_of_where({path: 5}, ())] == []
