"""Another way to write a trigger is read as the trigger that it means, and `watcher check` names that one."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from config.errors import ConfigurationInvalid
from config.features.publishing import WRITTEN_SCHEMA
from config.models import Configuration
from config.models.changes import changes
from config.reading.loader import load
from triggers.changes.options import ChangesOptions
from triggers.changes.trigger import PostgresChanges
from watcher.configuration.sources import hosted
from watcher.configuration.vocabulary import SPELLINGS, TRIGGERS, vocabulary
from watcher.triggerer.clients import ImportedTrigger

OLD, NEW = "trigger: postgres.new_rows, mode: log", "trigger: postgres.changes"
NEVER_WRITTEN = "trigger: postgres.changes, mode: log"
DOCUMENT = """version: 1
connections: {shop: {type: postgres, dsn: "postgresql://shop/shop"}}
assets:
  orders:
    uri: postgres://shop/shop/public/orders
    watchers: {orders_log: {WATCHER, connection: shop}}
"""


@pytest.fixture
def read(tmp_path: Path) -> Any:
    def read(watcher: str) -> Configuration:
        path = tmp_path / "watchers.yaml"
        path.write_text(DOCUMENT.replace("WATCHER", watcher))
        return load(path, vocabulary(), {})

    return read


@pytest.mark.parametrize("written", [OLD, NEW, NEVER_WRITTEN, f"{OLD}, on_bad_row: stop, max_retained: 10GB"])
def test_all_spellings_are_the_same_watcher(read: Any, written: str) -> None:
    one, other = read(NEW), read(written)
    assert one.watchers == other.watchers
    assert one.definitions == other.definitions
    assert one.hash == other.hash
    assert not changes(one, other)
    watcher = other.watchers["orders_log"]
    assert (watcher.trigger, watcher.options) == ("postgres.changes", ChangesOptions(table="public.orders"))
    assert hosted(other, {"orders": 1})["orders_log"].trigger == ImportedTrigger(PostgresChanges)


def test_a_warning_names_the_preferred_one(read: Any) -> None:
    [warning] = read(OLD).warnings
    assert (warning.line, warning.path) == (6, "assets.orders.watchers.orders_log.trigger")
    assert warning.message == (
        "`postgres.new_rows` with `mode: log` is `postgres.changes`: write that, which changes nothing else"
    )
    assert read(NEW).warnings == ()
    assert read("trigger: postgres.new_rows").warnings == ()


def test_a_dotted_path_is_read_as_that_of_the_other_class(read: Any) -> None:
    watcher = read("trigger: triggers.postgres.new_rows.NewRows, mode: log, isolation: none").watchers["orders_log"]
    assert (watcher.trigger, type(watcher.options)) == ("triggers.changes.trigger.PostgresChanges", ChangesOptions)


def test_each_spelling_has_the_dotted_path_of_its_class_as_well() -> None:
    for name, spelling in [*SPELLINGS.items()]:
        assert name in TRIGGERS or name in TRIGGERS.values()
        if name in TRIGGERS:
            assert SPELLINGS[TRIGGERS[name]].trigger == TRIGGERS[spelling.trigger]


@pytest.mark.parametrize(
    ("written", "sentence"),
    [
        (f"{OLD}, where: total > 0", "mode: log reports every change of the table: remove where"),
        (
            f"{NEW}, where: total > 0, column: number",
            "postgres.changes reports every change of the table: remove column, where",
        ),
        (f"{NEW}, start: all", "start: postgres.changes begins now; for rows that are there"),
        (
            "trigger: postgres.new_rows, publication: all",
            "mode: log alone has publication: remove it, or write `trigger: po",
        ),
        ("trigger: postgres.changes, mode: id", "mode"),
    ],
)
def test_options_of_the_other_are_refused_by_name(read: Any, written: str, sentence: str) -> None:
    with pytest.raises(ConfigurationInvalid) as refused:
        read(written)
    [problem] = refused.value.problems
    assert sentence in str(problem)


def test_without_the_other_trigger_the_mode_is_refused_in_one_sentence(tmp_path: Path) -> None:
    path = tmp_path / "watchers.yaml"
    path.write_text(DOCUMENT.replace("WATCHER", OLD))
    with pytest.raises(ConfigurationInvalid) as refused:
        load(path, replace(vocabulary(), spellings={}), {})
    [problem] = refused.value.problems
    assert (problem.path, problem.message) == (
        "assets.orders.watchers.orders_log.mode",
        "mode: log is a trigger of its own: write `trigger: postgres.changes` where that is installed, else id or updated_at",
    )


@pytest.mark.parametrize(
    ("watcher", "is_right"),
    [
        ({"trigger": "postgres.new_rows", "mode": "log", "publication": "all", "max_retained": "1GB"}, True),
        ({"trigger": "postgres.new_rows", "mode": "log", "on_bad_row": "stop", "witness": "created_at"}, True),
        ({"trigger": "postgres.changes", "publication": "all"}, True),
        ({"trigger": "postgres.new_rows", "mode": "id", "column": "number"}, True),
        ({"trigger": "postgres.new_rows", "publication": None}, True),
        ({"trigger": "postgres.new_rows", "publication": "all"}, False),
        ({"trigger": "postgres.new_rows", "mode": "log", "column": "number"}, False),
        ({"trigger": "postgres.changes", "column": "number"}, False),
    ],
)
def test_the_schema_takes_each_spelling_with_its_own_keys(watcher: dict[str, Any], is_right: bool) -> None:
    schema = json.loads(WRITTEN_SCHEMA.read_text(encoding="utf-8"))
    watchers = {"orders_log": {"connection": "shop", **watcher}}
    document = {"version": 1, "assets": {"orders": {"watchers": watchers}}}
    assert Draft202012Validator(schema).is_valid(document) is is_right
