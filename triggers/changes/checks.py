"""Start-up checks: what the table, the server, the publication and the replica identities must be (pure)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, Final

from triggers.base import Finding
from triggers.changes.options import ChangesOptions
from triggers.changes.slot import FAILOVER_SINCE
from triggers.postgres.catalog.facts import TableFacts
from triggers.postgres.catalog.table_checks import ESSENTIAL, judge_by, judge_listen, judge_primary_key
from triggers.shared.postgres.sql import quoted

INSTALL: Final = "have the table's owner run what `watcher pg install-publication NAME` prints"


_STAGES: Final = (ESSENTIAL, (judge_primary_key, judge_listen))


def judge_table(facts: TableFacts | None, options: ChangesOptions) -> list[Finding]:
    """Return the findings about what the catalog says of the table; None: there is none."""
    return judge_by(_STAGES, facts, options)


def judge_publishing(
    facts: TableFacts, options: ChangesOptions, published: Mapping[str, Any], identities: Sequence[Mapping[str, Any]]
) -> list[Finding]:
    """Return the findings; `published` is the row of `statements.PUBLISHED`, `identities` the rows of `IDENTITIES`."""
    return [
        *_server(facts, options, published),
        *judge_identities(facts, options, identities),
        *_partition(options, identities),
        *_publication(facts, options, published),
        *_standbys(facts, published),
    ]


def _server(facts: TableFacts, options: ChangesOptions, published: Mapping[str, Any]) -> Iterator[Finding]:
    if published["wal_level"] == "logical":
        yield Finding.ok("wal_level", "the server writes what logical decoding needs")
    else:
        yield Finding.error(
            "wal_level",
            f"the server has wal_level {published['wal_level']}: mode: log needs logical",
            "ALTER SYSTEM SET wal_level = 'logical', and restart the server",
        )
    if facts.persistence == "u":
        yield Finding.error(
            "durability",
            f"{options.table} is unlogged: its changes are in no log",
            f"ALTER TABLE {options.source.sql} SET LOGGED",
        )
    if not published["may_replicate"]:
        yield Finding.error(
            "replication",
            f"{facts.role} may not use replication slots",
            f"ALTER ROLE {quoted(facts.role)} REPLICATION (Amazon RDS: GRANT rds_replication TO {quoted(facts.role)})",
        )


def judge_identities(
    facts: TableFacts, options: ChangesOptions, identities: Sequence[Mapping[str, Any]]
) -> Iterator[Finding]:
    """Judge whether an UPDATE or DELETE says which row it changed."""
    without = [
        row["name"] for row in identities if row["identity"] != "f" and not {*facts.primary_key} <= {*row["columns"]}
    ]
    if without:
        yield Finding.error(
            "replica identity",
            f"the replica identity of {', '.join(without)} does not name the primary key: an UPDATE or DELETE would not"
            f" say which row it changed{', or would fail' if 'n' in {row['identity'] for row in identities} else ''}",
            "; ".join(f"ALTER TABLE {name} REPLICA IDENTITY DEFAULT" for name in without),
        )
    else:
        yield Finding.ok("replica identity", f"changes of {options.table} name the row by its primary key")


def _partition(options: ChangesOptions, identities: Sequence[Mapping[str, Any]]) -> Iterator[Finding]:
    """Warn of columns of partition keys or of `assets` that the row before a change does not have."""
    lacking = {
        row["name"]: missing
        for row in identities
        if row["identity"] != "f" and (missing := {*options.dividing_columns} - {*row["columns"]})
    }
    if lacking:
        columns = ", ".join(sorted({*chain.from_iterable(lacking.values())}))
        named = "partition key" if options.assets is None else "partition key, or goes to the watcher's own asset"
        yield Finding.warning(
            "partition",
            f"the replica identity of {', '.join(lacking)} does not have {columns}: a deletion has an incomplete {named},"
            " and a row that moves to another is reported under its new one alone",
            "; ".join(f"ALTER TABLE {name} REPLICA IDENTITY FULL" for name in lacking),
        )


def _publication(facts: TableFacts, options: ChangesOptions, published: Mapping[str, Any]) -> Iterator[Finding]:
    name, table = options.publication_name, options.table
    if not published["is_there"]:
        yield Finding.error("publication", f"there is no publication {name}", INSTALL)
        return
    faults = [*_faults(facts, options, published)]
    for message, remedy in faults:
        yield Finding.error("publication", message, f"ALTER PUBLICATION {quoted(name)} {remedy}")
    if not published["pubtruncate"]:
        yield Finding.warning(
            "publication",
            f"the publication {name} leaves TRUNCATE out: that {table} was emptied is not reported",
            f"ALTER PUBLICATION {quoted(name)} SET (publish = 'insert, update, delete, truncate')",
        )
    if not faults:
        yield Finding.ok("publication", f"{name} publishes all changes of {table}")


def _faults(facts: TableFacts, options: ChangesOptions, published: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    name, table = options.publication_name, options.table
    names = {"INSERT": "pubinsert", "UPDATE": "pubupdate", "DELETE": "pubdelete"}
    if missing := [operation for operation, column in names.items() if not published[column]]:
        remedy = "SET (publish = 'insert, update, delete, truncate')"
        yield f"the publication {name} leaves {' and '.join(missing)} out: these changes would be lost", remedy
    if facts.kind == "p" and not published["pubviaroot"]:
        message = f"the publication {name} names partitions, not {table}: changes would be lost"
        yield message, "SET (publish_via_partition_root = true)"
    elif not published["has_table"]:
        yield f"the publication {name} does not publish {table}", f"ADD TABLE {options.source.sql}"
    if published["filter"] is not None:
        message = f"the publication {name} has a row filter for {table}: changes of other rows would be lost"
        yield message, f"SET TABLE {options.source.sql}"
    needed = [*facts.primary_key, *options.columns, *options.dividing_columns]
    if published["columns"] and (hidden := [each for each in needed if each not in published["columns"]]):
        message = f"the publication {name} leaves the columns {', '.join(hidden)} of {table} out"
        yield message, f"SET TABLE {options.source.sql}"


def _standbys(facts: TableFacts, published: Mapping[str, Any]) -> Iterator[Finding]:
    """Before version 17 a standby has no copy of the slot."""
    if facts.server_version >= FAILOVER_SINCE and not published["standbys"]:
        yield Finding.warning(
            "failover",
            "synchronized_standby_slots is empty: a promoted standby may lack what was reported, which blocks the watcher",
            "name the physical slots of the standbys in synchronized_standby_slots, if the server has standbys",
        )
