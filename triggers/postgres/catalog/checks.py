"""Checks of a table whose rows are read: whether detection is exact with what the catalog says about it (pure)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from triggers.base import Finding
from triggers.options import format_duration
from triggers.postgres.catalog.defaults import is_time_of_write, now_in, why_it_loses
from triggers.postgres.catalog.facts import TableFacts
from triggers.postgres.catalog.table_checks import ESSENTIAL, Check, judge_by, judge_listen, judge_primary_key
from triggers.postgres.options import NewRowsOptions
from triggers.shared.postgres.sql import quoted

INTEGERS: Final = {"smallint", "integer", "bigint"}


def judge(facts: TableFacts | None, options: NewRowsOptions) -> list[Finding]:
    """Return the findings of all checks of a table whose rows are read."""
    return judge_by(_STAGES[options.mode], facts, options)


def _persistence(facts: TableFacts, options: NewRowsOptions) -> Iterator[Finding]:
    if facts.persistence == "u":
        yield Finding.warning(
            "durability",
            f"{options.table} is unlogged: a crash of its server empties it and may set its ids back, unnoticed by the watcher",
            f"ALTER TABLE {options.source.sql} SET LOGGED",
        )


def _policies(facts: TableFacts, options: NewRowsOptions) -> Iterator[Finding]:
    if facts.hides_rows:
        table, role = options.source.sql, quoted(facts.role)
        yield Finding.error(
            "row security",
            f"row-level security of {options.table} may hide rows from {facts.role}: rows that are hidden now would be lost",
            f"CREATE POLICY asset_watcher ON {table} FOR SELECT TO {role} USING (true), without a restrictive policy for"
            f" {role}, or ALTER ROLE {role} BYPASSRLS; rows written in the meantime are found after that",
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
            f"{options.column} is {facts.type}, not an integer",
            "mode: id needs a growing integer; for other keys use mode: updated_at",
        )
    elif not facts.not_null:
        yield Finding.error("column", f"{options.column} may be null", f"{_alter(options)} SET NOT NULL")
    else:
        yield Finding.ok("column", f"{options.column} is {facts.type} and never null")


def _alter(options: NewRowsOptions) -> str:
    return f"ALTER TABLE {options.source.sql} ALTER COLUMN {quoted(options.column)}"


def _unique(facts: TableFacts, options: NewRowsOptions) -> Iterator[Finding]:
    if not facts.has_index:
        return  # `_index` reports that
    if facts.is_unique:
        yield Finding.ok("unique", f"{options.column} is unique")
    elif facts.kind == "p" and facts.is_unique_per_partition:
        yield Finding.warning(
            "unique",
            f"{options.column} is unique only together with the partition key: PostgreSQL cannot enforce more",
            "let all ids come from the sequence; then each is unique",
        )
    else:
        yield Finding.error(
            "unique",
            f"{options.column} is not unique: no unique index covers it alone",
            f"CREATE UNIQUE INDEX CONCURRENTLY ON {options.source.sql} ({quoted(options.column)})",
        )


def _drawn(facts: TableFacts, options: NewRowsOptions) -> Iterator[Finding]:
    """Accept identity columns, which have no default expression, and defaults that are nextval and nothing else."""
    others = [default or "no default" for default in facts.defaults if not _NEXTVAL.fullmatch(default)]
    if not others:
        yield Finding.ok("ids", f"{options.column} is drawn from a sequence")
        return
    message = f"{options.column} is not drawn from a sequence but has {others[0]}"
    if options.by_id.unsafe_ids:
        yield Finding.warning(
            "ids", message, "detection is exact only if the transaction that inserts a row draws its id by nextval"
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
        fixes = {"CACHE 1": sequence.cache > 1, "INCREMENT 1": sequence.increment <= 0, "NO CYCLE": sequence.cycle}
        for fix in (fix for fix, is_needed in fixes.items() if is_needed):
            yield Finding.error(
                "sequence", _SEQUENCE_ERRORS[fix].format(name=sequence.name), f"ALTER SEQUENCE {sequence.name} {fix}"
            )
        if not any(fixes.values()):
            yield Finding.ok("sequence", f"{sequence.name} hands out ids one by one, upwards")
        if not sequence.readable and not options.by_id.unsafe_ids:
            yield Finding.warning(
                "sequence",
                f"{facts.role} may not read {sequence.name}: an id given by hand above the others hides the rows after it,"
                " and a sequence that is set back goes unnoticed",
                f"GRANT SELECT ON SEQUENCE {sequence.name} TO {quoted(facts.role)}",
            )
        if sequence.increment > 1:
            yield Finding.warning(
                "increment",
                f"{sequence.name} counts by {sequence.increment}: rows are lost if clients use the ids in between",
                f"ALTER SEQUENCE {sequence.name} INCREMENT 1, unless no client uses the ids in between",
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
            f"{options.table} is fed by a subscription: its rows carry the publishing server's time",
            f"set {options.column} by a trigger here too, with ALTER TABLE … ENABLE ALWAYS TRIGGER",
        )


def _moment(facts: TableFacts, options: NewRowsOptions) -> Iterator[Finding]:
    name = options.column
    if (wrong_type := _wrong_type(facts, options)) is not None:
        yield wrong_type
        return
    if not facts.not_null:
        remedy = f"{_alter(options)} SET NOT NULL"
        yield Finding.warning("column", f"{name} may be null: such rows are never found", remedy)
    if not facts.has_insert_trigger:
        yield from _defaults(facts, options)
    if not facts.has_update_trigger:
        yield Finding.warning(
            "trigger",
            f"no BEFORE UPDATE trigger sets {name}: rows updated without it are not found",
            "add a trigger that sets it to now()",
        )
    if not facts.is_set_by_trigger:
        late, now = format_duration(facts.lateness(options.by_update.lateness)), now_in(options.by_update.time_zone)
        message = f"no trigger sets {name} at each write: rows of clocks over {late} behind the server's are lost"
        remedy = f"a BEFORE INSERT OR UPDATE trigger that sets it to {now}, or a larger `lateness`"
        yield Finding.warning("clock", message, remedy)


def _wrong_type(facts: TableFacts, options: NewRowsOptions) -> Finding | None:
    """Return what is wrong with the type of the timestamp; None if it fits `time_zone`."""
    what = f"{options.column} is {facts.type}"
    match facts.type, options.by_update.time_zone:
        case "timestamp with time zone", None:
            return None
        case "timestamp with time zone", _:
            return Finding.error("column", f"{what}: its values are moments, whatever the zone", "remove `time_zone`")
        case "timestamp without time zone", None:
            remedy = (
                "set `time_zone: UTC`, or the zone without daylight saving of whose clock all writers set the column"
            )
            return Finding.error("column", f"{what}: its values do not say of which zone's clock they are", remedy)
        case "timestamp without time zone", _:
            return None
    return Finding.error("column", f"{what}, not a time", f"{_alter(options)} TYPE timestamptz")


def _defaults(facts: TableFacts, options: NewRowsOptions) -> Iterator[Finding]:
    name, zone = options.column, options.by_update.time_zone
    now = now_in(zone)
    remedy = f"{_alter(options)} SET DEFAULT {now}"
    if not any(facts.defaults):
        yield Finding.warning("default", f"{name} has no default: an INSERT may set the client's time", remedy)
    for default in sorted({default for default in facts.defaults if default and not is_time_of_write(default, zone)}):
        if why := why_it_loses(default):
            yield Finding.error("default", f"{name} has the default {default}, {why}: such rows are lost", remedy)
        else:
            message = f"{name} has the default {default}: rows are lost where that is earlier than {now}"
            yield Finding.warning("default", message, remedy)


_STAGES: Final[Mapping[str, Sequence[Sequence[Check[NewRowsOptions]]]]] = {
    "id": (
        ESSENTIAL,
        (_integer,),
        (_policies, _persistence, _index, _unique, _drawn, _sequence, _subscription, judge_listen),
    ),
    "updated_at": (
        ESSENTIAL,
        (_moment,),
        (_policies, _persistence, _index, judge_primary_key, _subscription, judge_listen),
    ),
}
_NEXTVAL: Final = re.compile(r"nextval\('.*'::regclass\)")
_SEQUENCE_ERRORS: Final = {
    "CACHE 1": "{name} hands out ids in blocks: a session may use a low id long after others used higher ones",
    "INCREMENT 1": "{name} counts downwards",
    "NO CYCLE": "{name} starts over from its minimum when it reaches its end",
}
