"""Templates in `spark.args`: the values they may use, and what they cannot do."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import pytest

from config.models.spark import ARGUMENT_NAMES
from store.detection.event_lists import EventAsset, StoredEvent
from store.keys import TaskInstanceId, TaskInstanceKey, TryKey
from store.runs.runs import RunRow
from watcher.host.templates import LARGEST
from watcher.scheduling.tries.arguments import ArgumentsInvalid, rendered_arguments, template_context

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)
INSTANCE = TaskInstanceKey(dag_id="load", run_id="manual__1", task_id="load")
KEY = TryKey(instance=INSTANCE, task_instance_id=TaskInstanceId("1"), try_number=2)


def run(conf: str = "{}", logical_date: datetime | None = NOON) -> RunRow:
    fields: dict[str, Any] = dict.fromkeys(RunRow.__dataclass_fields__)
    return RunRow(**{**fields, "conf": conf, "logical_date": logical_date, "partition_key": "day-1"})


def event(number: int, asset: str, **extra: Any) -> StoredEvent:
    fields: dict[str, Any] = dict.fromkeys(StoredEvent.__dataclass_fields__)
    of = EventAsset(name=asset, uri=f"s3://{asset}", group="asset", extra={})
    return StoredEvent(
        **{**fields, "id": number, "asset": of, "extra": extra, "timestamp": NOON, "partition_key": "day-2"}
    )


CONTEXT = template_context(
    KEY,
    run('{"x": "a b", "items": 3}'),
    [event(1, "orders", key="old"), event(2, "orders", key="new"), event(3, "a.b", items=[1, 2])],
)


def test_a_check_accepts_the_names_that_a_run_provides() -> None:
    assert set(CONTEXT) == set(ARGUMENT_NAMES)


@pytest.mark.parametrize(
    ("argument", "text"),
    [
        ("as it is", "as it is"),
        ("{ $ } \n", "{ $ } \n"),
        ("{{ run_id }} {{ dag_id }} {{ task_id }} {{ try_number }}", "manual__1 load load 2"),
        ("{{ conf.x }}; rm -rf /", "a b; rm -rf /"),
        ("{{ conf.items }}", "3"),
        ("{{ triggering_asset_events.orders[-1].extra.key }}", "new"),
        ("{{ triggering_asset_events['a.b'][0].extra.items | tojson }}", "[1, 2]"),
        ("{{ triggering_asset_events.orders | map(attribute='id') | join(',') }}", "1,2"),
        ("{{ triggering_asset_events.orders[0].asset.uri }}", "s3://orders"),
        ("{{ logical_date }} {{ logical_date.strftime('%Y/%m') }}", "2026-11-20T12:00:00+00:00 2026/11"),
        ("{{ data_interval_start }}", "None"),
        ("{{ partition_key }} {{ triggering_asset_events.orders[0].partition_key }}", "day-1 day-2"),
        ("<{{ '<&>' }}>\n", "<<&>>\n"),
        ("{{ 6 * 7 }}", "42"),
    ],
)
def test_a_template_is_rendered_with_the_runs_values(argument: str, text: str) -> None:
    assert rendered_arguments(["first", argument], CONTEXT) == ("first", text)


@pytest.mark.parametrize(
    ("argument", "sentence"),
    [
        ("{{ conf.missing }}", "cannot be rendered: 'dict object' has no attribute 'missing'"),
        ("{{ triggering_asset_events.others[0] }}", "cannot be rendered: 'dict object' has no attribute 'others'"),
        ("{{ triggering_asset_events.orders[7].id }}", "cannot be rendered: list object has no element 7"),
        ("{{ conf.x + 1 }}", "cannot be rendered: can only concatenate str"),
        ("{{ 1 // 0 }}", "cannot be rendered: integer division"),
        (
            "{{ ''.__class__.__mro__ }}",
            "cannot be rendered: access to attribute '__class__' of 'str' object is unsafe.",
        ),
        ("{{ conf.update(x=1) }}", "cannot be rendered: access to attribute 'update' of 'dict' object is unsafe."),
        ("{{ 'x' * 999999999 }}", "cannot be rendered: `*` works on two numbers only"),
        ("{{ 9 ** 9 ** 9 }}", "cannot be rendered: `**` is not allowed"),
        (
            "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
            "was not rendered within 1 s",
        ),
        ("{% for a in range(99999) %}{{ a }}{% endfor %}", f"gives more than {LARGEST:,} bytes"),
        ("{{ '\\0' }}", "contains a NUL character, which cannot be passed to a program; remove it"),
        (
            "{{ '\\r' }}",
            "contains a carriage return, which Spark's scripts remove; write it as another character, or put it into a file",
        ),
    ],
)
def test_an_argument_that_cannot_be_rendered_is_reported_with_its_place(argument: str, sentence: str) -> None:
    with pytest.raises(ArgumentsInvalid) as refused:
        rendered_arguments(["{{ run_id }}", argument], CONTEXT)
    assert str(refused.value).startswith(f"spark.args[1] {sentence}")
    assert "\n" not in str(refused.value)


def test_all_arguments_together_have_a_limit() -> None:
    context: Mapping[str, Any] = {"conf": {"x": "x" * LARGEST}}
    with pytest.raises(ArgumentsInvalid, match="more than 1,000,000 bytes in all"):
        rendered_arguments(["{{ conf.x }}"] * 11, context)
