from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from pydantic import ValidationError

from tests.unit.triggers_postgres.test_postgres_checks import FACTS
from triggers.postgres.connection import PostgresConnection
from triggers.postgres.new_rows import NewRows
from triggers.postgres.options import NewRowsOptions


def parsed(**values: object) -> NewRowsOptions:
    return NewRowsOptions.model_validate({"table": "public.orders", **values})


def test_the_defaults_are_those_of_the_documentation() -> None:
    options = parsed()

    assert (options.mode, options.column, options.columns, options.where) == ("id", "id", (), None)
    assert (options.start, options.interval, options.batch.max_rows) == ("now", timedelta(seconds=1), 1000)
    assert (options.listen, options.unsafe_ids) == (False, False)
    assert (options.gap_alarm.count, options.gap_alarm.age) == (1000, timedelta(minutes=10))


@pytest.mark.parametrize(
    ("start", "expected"),
    [("now", "now"), ("all", "all"), (0, 0), (4711, 4711), ("4711", 4711), ("-1", -1)],
)
def test_start_of_mode_id(start: object, expected: object) -> None:
    assert parsed(start=start).start == expected


@pytest.mark.parametrize(
    "start",
    [
        "2026-11-20T09:00:00Z",
        "2026-11-20T09:00:00",
        "2026-11-20T10:00:00+01:00",
        datetime(2026, 11, 20, 10, tzinfo=timezone(timedelta(hours=1))),
    ],
)
def test_start_of_mode_updated_at(start: str | datetime) -> None:
    parsed_start = parsed(mode="updated_at", start=start).start
    assert str(parsed_start) == "2026-11-20 09:00:00+00:00"


def test_the_default_column_depends_on_the_mode() -> None:
    assert parsed(mode="updated_at").column == "updated_at"
    assert parsed(mode="updated_at", column="changed").column == "changed"


@pytest.mark.parametrize(
    ("lateness", "is_set_by_trigger", "expected"),
    [(None, False, 60), (None, True, 0), ("0s", False, 0), ("1h", False, 3600), ("1500ms", True, 1.5)],
)
def test_the_margin_for_clocks_depends_on_the_trigger_unless_it_is_configured(
    lateness: str | None, is_set_by_trigger: bool, expected: float
) -> None:
    options = parsed(mode="updated_at") if lateness is None else parsed(mode="updated_at", lateness=lateness)
    facts = replace(FACTS, is_set_by_trigger=is_set_by_trigger)

    assert facts.lateness(options.by_update.lateness) == timedelta(seconds=expected)


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"start": "2026-11-20T09:00:00Z"}, "a timestamp needs mode: updated_at"),
        ({"lateness": "1m"}, "lateness needs mode: updated_at"),
        ({"mode": "updated_at", "lateness": "61m"}, r"less than or equal to datetime.timedelta\(seconds=3600\)"),
        ({"mode": "updated_at", "lateness": "soon"}, "lateness"),
        ({"mode": "updated_at", "start": 7}, "an id needs mode: id"),
        ({"start": 2**63}, "start: no id is that large: ids have 64 bits"),
        ({"mode": "updated_at", "start": "0001-01-01T00:00:00+14:00"}, "write now, all, an id, or an ISO timestamp"),
        ({"start": "yesterday"}, "write now, all, an id, or an ISO timestamp"),
        ({"batch": {"max_rows": 0}}, "greater than or equal to 1"),
        ({"interval": "0s"}, "greater than 0"),
        ({"columns": [""]}, "an SQL name is not empty"),
        ({"table": "public."}, "an SQL name is not empty"),
        ({"soft_delete": "gone"}, "soft_delete needs mode: updated_at"),
        ({"time_zone": "UTC"}, "time_zone needs mode: updated_at"),
        ({"mode": "updated_at", "time_zone": "UTC+3"}, "write UTC or the name of a time zone"),
        ({"mode": "updated_at", "time_zone": "UTC' OR '"}, "write UTC or the name of a time zone"),
        ({"mode": "updated_at", "time_zone": ""}, "write UTC or the name of a time zone"),
        ({"prefix": "x"}, "Extra inputs are not permitted"),
    ],
)
def test_invalid_options_are_refused_with_a_sentence(values: dict[str, object], sentence: str) -> None:
    with pytest.raises(ValidationError, match=sentence):
        parsed(**values)


@pytest.mark.parametrize(
    ("uri", "defaults"),
    [
        ("postgres://shop/shop/public/customers", {"table": "public.customers"}),
        ("postgres://shop/shop/my%20schema/Order%20Items", {"table": "my schema.Order Items"}),
        ("postgres://shop/shop/a%2Fb/50%25", {"table": "a/b.50%"}),
        ("postgres://shop/shop/a.b/c", {"table": '"a.b"."c"'}),
        ("postgres://shop/shop", {}),
        ("s3://bucket/a/b/c", {}),
        ("customers", {}),
    ],
)
def test_the_asset_names_the_table(uri: str, defaults: dict[str, Any]) -> None:
    assert NewRows.defaults(uri) == defaults


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({}, "give a dsn, or at least a host"),
        ({"dsn": "postgresql://u:hush@h/d", "host": "h", "user": "u"}, "give either dsn or host, user, not both"),
        ({"dsn": "mysql://u:hush@h/d"}, "write the dsn as postgresql://user:password@host:5432/database"),
        ({"host": "h", "pool_size": 0}, "greater than or equal to 1"),
        ({"host": "h", "sslmode": "on"}, "Input should be 'disable'"),
    ],
)
def test_an_invalid_address_is_refused_without_repeating_secrets(values: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValidationError, match=sentence) as refused:
        PostgresConnection.model_validate({"type": "postgres", **values})
    assert "hush" not in str(refused.value)


def test_secrets_are_not_shown() -> None:
    connection = PostgresConnection.model_validate({"dsn": "postgresql://u:hush@h/d"})
    assert "hush" not in repr(connection)


@pytest.mark.parametrize("values", [{"publication": "all"}, {"max_retained": "1GB"}])
def test_options_of_changes_are_refused_by_name(values: dict[str, object]) -> None:
    with pytest.raises(
        ValidationError, match=f"mode: log alone has {min(values)}: remove it, or write `trigger: postg"
    ):
        parsed(**values)


def test_options_of_changes_that_say_nothing_may_stand_there() -> None:
    assert parsed(publication=None, max_retained="10GB") == parsed()


def test_mode_log_is_no_mode_of_this_trigger() -> None:
    with pytest.raises(ValidationError, match=r"mode: log is a trigger of its own: write `trigger: postgres\.changes`"):
        parsed(mode="log")
