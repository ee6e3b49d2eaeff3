"""The options of `postgres.changes`, which `postgres.new_rows` takes with `mode: log`."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from triggers.changes.options import ChangesOptions
from triggers.changes.trigger import PostgresChanges
from triggers.postgres.options import NewRowsOptions


def parsed(**values: object) -> ChangesOptions:
    return ChangesOptions.model_validate({"table": "public.orders", **values})


def test_it_has_options_of_its_own() -> None:
    options = parsed(publication=None, max_retained="10GB", lock_timeout="1s")

    assert (options.mode, options.max_retained, options.start) == ("log", 10**10, "now")
    assert options.publication_name == parsed().publication_name
    assert options.publication_name != parsed(table="shop.orders").publication_name
    assert parsed(publication="all").publication_name == "all"


def test_the_mode_may_be_written() -> None:
    assert parsed(mode="log") == parsed()


@pytest.mark.parametrize(
    "values",
    [
        {"column": "id"},
        {"where": None, "unsafe_ids": False, "unsafe_where": False},
        {"on_bad_row": "stop", "gap_alarm": {"count": 1000}},
        {"soft_delete": None, "time_zone": None, "lateness": None},
        {"witness": "created_at"},
    ],
)
def test_options_of_rows_that_say_nothing_may_stand_there(values: dict[str, object]) -> None:
    assert parsed(mode="log", **values) == parsed()


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"where": "note = 'a'"}, r"postgres\.changes reports every change of the table: remove where"),
        ({"mode": "log", "where": "note = 'a'"}, "mode: log reports every change of the table: remove where"),
        ({"column": "number", "unsafe_ids": True}, "remove column, unsafe_ids"),
        ({"on_bad_row": "report"}, "remove on_bad_row"),
        ({"gap_alarm": {"age": "1h"}}, "remove gap_alarm"),
        ({"lateness": "1m"}, "remove lateness"),
        ({"soft_delete": "gone", "time_zone": "UTC"}, "remove soft_delete, time_zone"),
        ({"start": "all"}, r"start: postgres\.changes begins now; .* there already, use postgres\.new_rows beside it"),
        ({"mode": "log", "start": 17}, "start: mode: log begins now; .* there already, use mode: id beside it"),
        ({"start": "2026-11-20T09:00:00Z"}, r"start: postgres\.changes begins now"),
        ({"mode": "id"}, "Input should be 'log'"),
        ({"max_retained": "10kB"}, "greater than or equal to 1000000"),
        ({"publication": "p" * 64}, "at most 63 characters"),
        ({"columns": [""]}, "an SQL name is not empty"),
        ({"prefix": "x"}, "Extra inputs are not permitted"),
    ],
)
def test_what_it_refuses(values: dict[str, object], sentence: str) -> None:
    with pytest.raises(ValidationError, match=sentence):
        parsed(**values)


def test_each_option_of_rows_is_refused_or_shared() -> None:
    """A new option of `postgres.new_rows` is named in the sentence of refusal, or is one of all tables."""
    of_rows = NewRowsOptions.model_fields.keys() - ChangesOptions.model_fields.keys()
    harmless = ChangesOptions.model_json_schema()["properties"].keys() - ChangesOptions.model_fields.keys()
    assert of_rows == harmless
    of_changes = ChangesOptions.model_fields.keys() - NewRowsOptions.model_fields.keys()
    harmless = NewRowsOptions.model_json_schema()["properties"].keys() - NewRowsOptions.model_fields.keys()
    assert of_changes == harmless


def test_the_asset_names_the_table() -> None:
    assert PostgresChanges.defaults("postgres://shop/shop/public/orders") == {"table": "public.orders"}
    assert PostgresChanges.defaults("orders") == {}
