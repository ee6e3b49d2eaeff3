"""Start-up checks of a watched table: what the catalogue says, and whether detection is exact with it."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Final

from triggers.base import Finding
from triggers.postgres.options import NewRowsOptions
from triggers.postgres.sql import Drawn, quoted
from triggers.postgres.values import ValueType

OLDEST_SERVER: Final = 14
INTEGERS: Final = {"smallint", "integer", "bigint"}
TABLE_KINDS: Final = {"r": "a table", "p": "a partitioned table"}
OTHER_KINDS: Final = {"v": "a view", "m": "a materialized view", "f": "a foreign table", "S": "a sequence"}


@dataclass(frozen=True, kw_only=True, slots=True)
class IdSequence:
    name: str
    oid: int
    cache: int
    increment: int
    cycle: bool
    minimum: int
    readable: bool = True
    """By the role, also what it has handed out."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Relation:
    """The table, a partition or a sequence; `file` is another once all of it was written anew, or emptied."""

    name: str
    kind: str
    file: int


@lru_cache(maxsize=1000)
def _columns_of(text: str) -> Mapping[str, str]:
    """The same of all tables that are alike: there may be thousands."""
    return MappingProxyType(json.loads(text))


@dataclass(frozen=True, kw_only=True, slots=True)
class TableFacts:
    """One row of `sql.FACTS`. `type` None: no such column. `defaults`: of the column, on the table and its partitions."""

    table_oid: int
    database_oid: int
    server_version: int
    role: str
    kind: str
    persistence: str
    not_null: bool | None
    type: str | None
    relations: Sequence[int]
    children: int
    has_index: bool
    is_unique: bool
    is_unique_per_partition: bool
    defaults: Sequence[str]
    subscribed: bool
    has_update_trigger: bool
    notifies: bool
    sequences: Sequence[IdSequence]
    primary_key: Sequence[str]
    columns: Mapping[str, str]
    hides_rows: bool = False
    """Row-level security is active for the role, and no policy lets it see everything."""
    stored: Mapping[int, Relation] = field(default_factory=dict)
    """The table, its partitions and sequences, by oid."""
    files: int = 0
    """Another once one of these is rewritten or emptied."""
    mark: int = 0
    """Another once somebody has altered the table, a partition, an index or a sequence of it."""
    types: Mapping[str, ValueType] = field(default_factory=dict)
    """Of the columns; read apart from the row."""
    one_plan: bool = False
    """Whether statements that are ordered by the column have one way only, along its index: of many partitions, the arguments
    of each poll say which are read, and locked."""
    most_sessions: int | None = None
    """How many sessions the server has for the role, others of the role or the database among them."""

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> TableFacts:
        sequences = [IdSequence(**json.loads(text)) for text in row["sequences"]]
        stored = {int(oid): Relation(**relation) for oid, relation in json.loads(row["stored"]).items()}
        known = {name: sys.intern(row[name]) for name in ("role", "type") if row[name] is not None}
        return cls(
            **{**row, **known, "sequences": sequences, "columns": _columns_of(row["columns"] or "{}"), "stored": stored}
        )

    @property
    def locked_relations(self) -> list[int]:
        """All that a writer locks before it draws an id. The sequence alone would do, and does for partitions to come."""
        return [*self.relations, *(sequence.oid for sequence in self.sequences)]

    def drawn(self, options: NewRowsOptions) -> Drawn | None:
        """By which ids that were given by hand are known; None where that cannot be told."""
        if options.unsafe_ids or len(self.sequences) != 1 or not self.sequences[0].readable:
            return None
        return Drawn(sequence=self.sequences[0].name, increment=self.sequences[0].increment)


def judge(facts: TableFacts | None, options: NewRowsOptions) -> list[Finding]:
    """One finding per check; what makes the rest meaningless ends the list."""
    if facts is None:
        message = f"there is no table {options.table} in this database"
        case = "schema.table, upper and lower case as in the catalogue"
        return [Finding.error("table", message, f"correct `table` ({case}) or the connection's database")]
    findings: list[Finding] = []
    for stage in _STAGES[options.mode]:
        findings += [finding for check in stage for finding in check(facts, options)]
        if any(finding.level == "error" for finding in findings):
            break
    return findings


def judge_sessions(facts: TableFacts, most: int) -> Finding:
    """Of a connection that opens so many sessions at most."""
    if facts.most_sessions is None or most <= facts.most_sessions:
        return Finding.ok("connections", f"at most {most} sessions serve all watchers of the connection")
    return Finding.warning(
        "connections",
        f"the watchers of the connection open up to {most} sessions, and the server lets {facts.role} have"
        f" {facts.most_sessions}: polls fail when it refuses one",
        f"lower the connection's `pool_size` by {most - facts.most_sessions} or more, or raise max_connections",
    )


def _version(facts: TableFacts, _: NewRowsOptions) -> Iterator[Finding]:
    major = facts.server_version // 10_000
    if major < OLDEST_SERVER:
        yield Finding.error("version", f"the server is PostgreSQL {major}", f"upgrade it to {OLDEST_SERVER} or newer")
    else:
        yield Finding.ok("version", f"PostgreSQL {major}")


def _kind(facts: TableFacts, options: NewRowsOptions) -> Iterator[Finding]:
    if facts.kind not in TABLE_KINDS:
        kind = OTHER_KINDS.get(facts.kind, "no table")
        yield Finding.error("table", f"{options.table} is {kind}", "watch the table that the rows are inserted into")
    elif facts.kind == "r" and facts.children:
        yield Finding.error(
            "table",
            f"other tables inherit from {options.table}: nothing keeps their ids unique together",
            "watch each table, or turn it into a partitioned table",
        )
    else:
        yield Finding.ok("table", f"{options.table} is {TABLE_KINDS[facts.kind]}")


def _persistence(facts: TableFacts, options: NewRowsOptions) -> Iterator[Finding]:
    if facts.persistence == "u":
        yield Finding.warning(
            "durability",
            f"{options.table} is unlogged: a crash of its server empties it and may set its ids back, unseen by the watcher",
            f"ALTER TABLE {options.source.sql} SET LOGGED",
        )


def _policies(facts: TableFacts, options: NewRowsOptions) -> Iterator[Finding]:
    if facts.hides_rows:
        table, role = options.source.sql, quoted(facts.role)
        yield Finding.error(
            "row security",
            f"row-level security of {options.table} may hide rows from {facts.role}: what is hidden now would be lost",
            f"CREATE POLICY asset_watcher ON {table} FOR SELECT TO {role} USING (true), without a restrictive policy for"
            f" {role}, or ALTER ROLE {role} BYPASSRLS; what was written meanwhile is found then",
        )


def _columns(facts: TableFacts, options: NewRowsOptions) -> Iterator[Finding]:
    missing = [name for name in (options.column, *options.columns) if name not in facts.columns]
    if missing:
        yield Finding.error(
            "columns",
            f"{options.table} has no column {', '.join(missing)}",
            f"choose among {', '.join(facts.columns)}, with `column` and `columns`",
        )


def _index(facts: TableFacts, options: NewRowsOptions) -> Iterator[Finding]:
    unique = "UNIQUE " if options.mode == "id" else ""
    if facts.has_index:
        yield Finding.ok("index", f"a btree index starts with {options.column}")
    else:
        yield Finding.error(
            "index",
            f"no valid btree index starts with {options.column}: each poll would read the whole table",
            f"CREATE {unique}INDEX CONCURRENTLY ON {options.source.sql} ({quoted(options.column)})",
        )


def _integer(facts: TableFacts, options: NewRowsOptions) -> Iterator[Finding]:
    if facts.type not in INTEGERS:
        yield Finding.error(
            "column",
            f"{options.column} is {facts.type}, no integer",
            "mode: id needs an integer that grows; for other keys use mode: updated_at",
        )
    elif not facts.not_null:
        yield Finding.error("column", f"{options.column} may be null", f"{_alter(options)} SET NOT NULL")
    else:
        yield Finding.ok("column", f"{options.column} is {facts.type} and never null")


def _alter(options: NewRowsOptions) -> str:
    return f"ALTER TABLE {options.source.sql} ALTER COLUMN {quoted(options.column)}"


def _unique(facts: TableFacts, options: NewRowsOptions) -> Iterator[Finding]:
    if not facts.has_index:
        return  # said already
    if facts.is_unique:
        yield Finding.ok("unique", f"{options.column} is unique")
    elif facts.kind == "p" and facts.is_unique_per_partition:
        yield Finding.warning(
            "unique",
            f"{options.column} is unique together with the partition key only: PostgreSQL cannot enforce more",
            "let all ids come from the sequence, then each is unique",
        )
    else:
        yield Finding.error(
            "unique",
            f"{options.column} is not unique: no unique index holds it alone",
            f"CREATE UNIQUE INDEX CONCURRENTLY ON {options.source.sql} ({quoted(options.column)})",
        )


def _drawn(facts: TableFacts, options: NewRowsOptions) -> Iterator[Finding]:
    """Identity columns have no default expression at all, others must have nextval and nothing around it."""
    others = [default or "no default" for default in facts.defaults if not _NEXTVAL.fullmatch(default)]
    if not others:
        yield Finding.ok("ids", f"{options.column} is drawn from a sequence")
        return
    message = f"{options.column} is not drawn from a sequence but has {others[0]}"
    if options.unsafe_ids:
        yield Finding.warning(
            "ids", message, "detection is exact only while every id is drawn by nextval in its own transaction"
        )
    else:
        yield Finding.error(
            "ids", message, "make it an identity column, or set `unsafe_ids: true` if nextval draws every id"
        )


def _sequence(facts: TableFacts, options: NewRowsOptions) -> Iterator[Finding]:
    if len(facts.sequences) > 1:
        names = ", ".join(sequence.name for sequence in facts.sequences)
        yield Finding.error(
            "sequence", f"ids come from several sequences: {names}", "let all partitions draw from one sequence"
        )
    for sequence in facts.sequences:
        mends = {"CACHE 1": sequence.cache > 1, "INCREMENT 1": sequence.increment <= 0, "NO CYCLE": sequence.cycle}
        for mend in (mend for mend, needed in mends.items() if needed):
            yield Finding.error(
                "sequence", _SEQUENCE_FAULTS[mend].format(name=sequence.name), f"ALTER SEQUENCE {sequence.name} {mend}"
            )
        if not any(mends.values()):
            yield Finding.ok("sequence", f"{sequence.name} hands out ids one by one, upwards")
        if not sequence.readable and not options.unsafe_ids:
            yield Finding.warning(
                "sequence",
                f"{facts.role} may not read {sequence.name}: an id given by hand above the others hides the rows after it,"
                " and a sequence that was set back is not noticed",
                f"GRANT SELECT ON SEQUENCE {sequence.name} TO {quoted(facts.role)}",
            )
        if sequence.increment > 1:
            yield Finding.warning(
                "increment",
                f"{sequence.name} counts by {sequence.increment}: clients that fill the steps themselves lose rows",
                f"ALTER SEQUENCE {sequence.name} INCREMENT 1, unless nobody fills the steps",
            )


def _subscription(facts: TableFacts, options: NewRowsOptions) -> Iterator[Finding]:
    if facts.subscribed and options.mode == "id":
        yield Finding.error(
            "subscription",
            f"{options.table} is fed by a subscription: its ids were drawn on another server",
            "watch the table on the publishing server, or use mode: updated_at",
        )
    elif facts.subscribed:
        yield Finding.warning(
            "subscription",
            f"{options.table} is fed by a subscription: its rows bring the publishing server's time",
            f"set {options.column} by a trigger here too, with ALTER TABLE … ENABLE ALWAYS TRIGGER",
        )


def _moment(facts: TableFacts, options: NewRowsOptions) -> Iterator[Finding]:
    name = options.column
    if facts.type != "timestamp with time zone":
        yield Finding.error(
            "column",
            f"{name} is {facts.type}: without a time zone its values mean what each writer's session says",
            f"{_alter(options)} TYPE timestamptz",
        )
        return
    alter = f"{_alter(options)} SET"
    if not facts.not_null:
        yield Finding.warning("column", f"{name} may be null: such rows are never found", f"{alter} NOT NULL")
    if not any(facts.defaults):
        yield Finding.warning(
            "default", f"{name} has no default: an INSERT may set the client's time", f"{alter} DEFAULT now()"
        )
    if not facts.has_update_trigger:
        yield Finding.warning(
            "trigger",
            f"no BEFORE UPDATE trigger sets {name}: an UPDATE without it is not found",
            "add a trigger that sets it to now()",
        )


def _primary_key(facts: TableFacts, options: NewRowsOptions) -> Iterator[Finding]:
    if facts.primary_key:
        yield Finding.ok("primary key", f"rows are named by {', '.join(facts.primary_key)}")
    else:
        yield Finding.error("primary key", f"{options.table} has no primary key", "add one: events name the rows by it")


def _listen(facts: TableFacts, options: NewRowsOptions) -> Iterator[Finding]:
    if options.listen and not facts.notifies:
        yield Finding.warning(
            "listen",
            f"no trigger of {options.table} notifies: its rows are found when the interval is over",
            "let the owner of the table run what `watcher pg install-notify NAME` prints, or remove `listen`",
        )
    elif options.listen:
        yield Finding.ok("listen", f"a trigger of {options.table} notifies")


Check = Callable[[TableFacts, NewRowsOptions], Iterator[Finding]]
_ESSENTIAL: Final = (_version, _kind, _columns)
_STAGES: Final[Mapping[str, Sequence[Sequence[Check]]]] = {
    "id": (
        _ESSENTIAL,
        (_integer,),
        (_policies, _persistence, _index, _unique, _drawn, _sequence, _subscription, _listen),
    ),
    "updated_at": (_ESSENTIAL, (_moment,), (_policies, _persistence, _index, _primary_key, _subscription, _listen)),
}
_NEXTVAL: Final = re.compile(r"nextval\('.*'::regclass\)")
_SEQUENCE_FAULTS: Final = {
    "CACHE 1": "{name} hands out ids in blocks: a session may use a low id long after others used higher ones",
    "INCREMENT 1": "{name} counts downwards",
    "NO CYCLE": "{name} starts again from below at its end",
}
