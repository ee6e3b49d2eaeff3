"""Checks of states that no PostgreSQL of the service tests can have; all other checks are tested there."""

from __future__ import annotations

from dataclasses import replace

from triggers.postgres.catalog.checks import judge
from triggers.postgres.catalog.facts import TableFacts
from triggers.postgres.catalog.sequences import IdSequence
from triggers.postgres.options import NewRowsOptions

OPTIONS = NewRowsOptions.model_validate({"table": "public.orders"})
FACTS = TableFacts(
    table_oid=1,
    database_oid=2,
    server_version=140_000,
    role="reader",
    kind="r",
    persistence="p",
    not_null=True,
    type="bigint",
    relations=[1],
    children=0,
    has_index=True,
    is_unique=True,
    is_unique_per_partition=True,
    defaults=["nextval('orders_id_seq'::regclass)"],
    subscribed=False,
    has_update_trigger=False,
    notifies=False,
    sequences=[IdSequence(name="orders_id_seq", oid=3, cache=1, increment=1, cycle=False, minimum=1)],
    primary_key=["id"],
    columns={"id": "bigint"},
)


def test_version_14_is_new_enough() -> None:
    assert {finding.level for finding in judge(FACTS, OPTIONS)} == {"ok"}


def test_an_older_server_is_refused() -> None:
    [refused] = [one for one in judge(replace(FACTS, server_version=130_022), OPTIONS) if one.level == "error"]

    assert (refused.message, refused.remedy) == ("the server is PostgreSQL 13", "upgrade it to 14 or newer")


def test_lock_holders_are_listed_for_the_table_and_for_its_sequence() -> None:
    assert FACTS.locked_relations == [1, 3]
