"""Every table declares who owns its rows, what renames do to them, and how long they are kept."""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest
from sqlalchemy import Column, ForeignKey, Integer, MetaData, Table

from config.models.settings import StoreSettings
from store.database.lifecycle import (
    FEATURE,
    DeletedWith,
    HandedOver,
    Horizon,
    NameRule,
    RemovedBy,
    RowOwner,
    Swept,
    lifecycle_of,
    renamed,
    retained,
)
from store.database.schema import asset_event, kernel_tables
from store.processes import cleanup
from tests import features
from watcher import assembly

TABLES = {table.name: table for table in features.TABLES}


def naming_columns(table: Table) -> set[str]:
    """The columns that name a watcher, a job or an asset."""
    by_name = {column.name for column in table.c if column.name.endswith(("watcher", "dag_id"))}
    of_assets = {column.name for column in table.c for key in column.foreign_keys if key.target_fullname == "asset.id"}
    return by_name | of_assets | ({"name"} if table.name in {"watcher", "asset"} else set())


def foreign_keys(target: str) -> Iterator[tuple[Table, ForeignKey]]:
    for table in TABLES.values():
        yield from ((table, key) for key in table.foreign_keys if key.target_fullname == target)


@pytest.mark.parametrize("name", TABLES)
def test_a_table_declares_owner_names_and_retention(name: str) -> None:
    lifecycle = lifecycle_of(TABLES[name])
    assert lifecycle.kept, f"{name} does not declare how long its rows are kept"
    assert lifecycle.names.keys() == naming_columns(TABLES[name]), (
        f"{name} must declare what a rename does to each column that names a watcher, a job or an asset"
    )


def test_a_table_without_a_declaration_is_refused_with_a_sentence() -> None:
    with pytest.raises(LookupError, match="the table new does not declare who owns its rows"):
        lifecycle_of(Table("new", MetaData(), Column("id", Integer)))


def test_every_owner_has_tables() -> None:
    assert {lifecycle_of(table).owner for table in TABLES.values()} == set(RowOwner)


def test_a_name_rule_reads_as_a_sentence() -> None:
    assert all(rule.value.endswith(".") for rule in NameRule)


@pytest.mark.parametrize("table", [table for table, _, _ in renamed(TABLES.values(), HandedOver)], ids=str)
def test_each_column_is_handed_over_or_stays(table: Table) -> None:
    for _, column, rule in (each for each in renamed(TABLES.values(), HandedOver) if each[0] is table):
        assert sorted([column, *rule.columns, *rule.stays]) == sorted(table.c.keys())


def test_the_clean_up_sweeps_exactly_what_tables_declare() -> None:
    declared = [rule.sweep for _, rule in retained(TABLES.values(), Swept)]
    assert sorted(declared) == sorted(cleanup._SWEEPS)


@pytest.mark.parametrize("horizon", [horizon for horizon in Horizon if horizon.startswith("store.")])
def test_a_horizon_that_is_a_setting_is_in_the_configuration(horizon: Horizon) -> None:
    assert horizon.removeprefix("store.") in StoreSettings.model_fields


@pytest.mark.parametrize("function", sorted({rule.function for _, rule in retained(TABLES.values(), RemovedBy)}))
def test_who_removes_rows_is_there(function: str) -> None:
    module, _, name = function.rpartition(".")
    assert callable(getattr(importlib.import_module(module), name))


def test_rows_that_the_database_deletes_with_others_are_those_of_cascading_keys() -> None:
    """An association of an alias is of two rows that are never deleted: its key cascades and nothing is deleted with it."""
    declared = {(table.name, rule.table) for table, rule in retained(TABLES.values(), DeletedWith) if rule.by_database}
    cascading = {
        (table.name, key.column.table.name)
        for table in TABLES.values()
        for key in table.foreign_keys
        if key.ondelete == "CASCADE"
    }
    assert cascading - declared == {("asset_alias_asset", "asset")}
    assert declared <= cascading


@pytest.mark.parametrize("target", ["run.dag_id", "task_instance.id"])
def test_what_belongs_to_a_run_is_deleted_with_it(target: str) -> None:
    referring = {table.name for table, _ in foreign_keys(target)}
    assert referring <= {table.name for table, _ in retained(TABLES.values(), DeletedWith)}


def test_an_event_stays_while_anything_refers_to_it() -> None:
    """The sweep of events asks every table whose rows would lose their event, those of features by what they keep."""
    referring = {table.name for table, key in foreign_keys("asset_event.id") if key.ondelete is None}
    old = cleanup._old_events("events", asset_event, datetime.max.replace(tzinfo=UTC))
    asked = str(cleanup._without(old, features.KEPT_EVENTS).condition)
    catching_up = {"catchup"} & TABLES.keys()  # it has the range of those that it is still to get
    lacking = {"asset_event"} if catching_up else set()  # the events of this range
    assert referring | catching_up | lacking == {name for name in TABLES if re.search(rf"FROM {name}\b", asked)}


BY_FEATURE = {each.name: assembly.tables([each])[len(kernel_tables()) :] for each in features.FEATURES}
OF_FEATURES = [table for tables in BY_FEATURE.values() for table in tables]


def test_a_feature_lists_the_tables_that_are_declared_as_its_own() -> None:
    for name, tables in BY_FEATURE.items():
        assert {table.name for table in tables} == {
            table.name for table in TABLES.values() if table.info[FEATURE] == name
        }


def test_the_kernels_tables_refer_to_no_table_of_a_feature() -> None:
    referred = {key.column.table.name for table in kernel_tables() for key in table.foreign_keys}
    assert not referred & {table.name for table in OF_FEATURES}


def test_what_of_a_feature_goes_with_rows_of_the_kernel_is_deleted_by_the_database() -> None:
    """So nothing of the kernel has to know these tables, and its clean-up sweeps none of them."""
    assert all(rule.by_database for _, rule in retained(OF_FEATURES, DeletedWith))
    assert [*retained(OF_FEATURES, Swept)] == []
