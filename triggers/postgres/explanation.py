"""Why a row was reported, or was not: the one row as the table has it, judged by the position."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any, Final

from triggers.base import StoredPosition
from triggers.explanations import Explanation, as_json, outside
from triggers.postgres.by_id.ledger import Ledger
from triggers.postgres.by_update.statements import in_time_zone
from triggers.postgres.by_update.window import (
    BEFORE_ALL_TIME,
    RowPlace,
    TransactionSnapshot,
    VersionWindow,
    moment_text,
)
from triggers.postgres.options import NewRowsOptions
from triggers.postgres.sql import key_of_values, row_of_key
from triggers.postgres.table.watched_table import WatchedTable
from triggers.shared.postgres.failures import UnreadableRows
from triggers.shared.postgres.sql import primary_key_as_json, quoted
from triggers.shared.postgres.values import SMALLEST_ID, parse_all


def key_of(item: str, columns: tuple[str, ...]) -> Mapping[str, Any] | Explanation:
    """Return the primary key that an item means: a value, a list of the columns' values, or an object (pure)."""
    value = as_json(item)
    if isinstance(value, dict) and value.keys() == set(columns):
        return value
    values = value if isinstance(value, list) and len(columns) > 1 else [value]
    if isinstance(value, dict) or len(values) != len(columns):
        return outside(
            f"it is no key of the columns {', '.join(columns)}; write {json.dumps(dict.fromkeys(columns, '…'))}"
        )
    return dict(zip(columns, values, strict=True))


_PASSED: Final = "the watcher begins with its next poll, and passes over what is there then"


async def explain_row(table: WatchedTable, item: str, position: StoredPosition | None) -> Explanation:
    """Ask the table for the one row. Raises `TriggerError`."""
    return await (_explain_id if table.options.mode == "id" else _explain_key)(table, item, position)


async def _explain_id(table: WatchedTable, item: str, position: StoredPosition | None) -> Explanation:
    options = table.options
    named = options.name_item(item)
    if named.state == "outside":
        return named
    number: int = named.name
    start = options.start if isinstance(options.start, int) else SMALLEST_ID - 1
    column = quoted(options.column)
    sql = row_of_key(
        options.source,
        names=[options.column],
        key=f"{column}::text",
        where=options.where,
        above=f"{column} > $2::text::numeric",
    )
    try:
        row = await _row(table, sql, {options.column: number}, str(start))
    except UnreadableRows as error:
        return _unreadable(named, error, options)
    is_begun = position is not None and "m" in position.state
    ledger = Ledger.from_state(position.state) if is_begun and position is not None else None
    if row is None and ledger is not None and not ledger.accounts_for(number, number) and number <= ledger.highest:
        ledger = ledger.locked(await table.lock_holders())
    passes_over = options.start == "now" if position is None else not is_begun
    return explain_id(number, None if row is None else dict(row), options, ledger, passes_over=passes_over)


def explain_id(
    number: int, row: Mapping[str, Any] | None, options: NewRowsOptions, ledger: Ledger | None, *, passes_over: bool
) -> Explanation:
    """Return what a watcher in mode `id` did, or will do, with an id; `row` has `keep` and `above` (pure).

    `passes_over`: the next poll begins with what comes after it, because of `start: now` or of a rewind to now.
    """

    def answer(state: Any, sentence: str, **facts: Any) -> Explanation:
        return Explanation(state=state, sentence=sentence, facts=facts, name=number, in_ranges=True)

    if row is None:
        return _absent(number, options, ledger)
    if not row["keep"]:
        return answer("not_matched", f"the row does not meet `where: {options.where}`", where=options.where)
    is_handled = ledger is not None and ledger.accounts_for(number, number)
    if not row["above"] and (is_handled or ledger is None):
        return answer("before_start", f"its id is not above `start: {options.start}`", start=options.start)
    if passes_over:
        return answer("before_start", _PASSED)
    if is_handled:
        return answer("reported", "the watcher has accounted for its id")
    return answer("waiting", "it is committed, and the next poll reports it", reason="poll")


def _absent(number: int, options: NewRowsOptions, ledger: Ledger | None) -> Explanation:
    """Return the answer for an id that no committed row has: a transaction may still insert it."""
    absent = Explanation(state="missing", sentence="", name=number, in_ranges=True)
    if ledger is None or ledger.accounts_for(number, number) or number > ledger.highest:
        highest = "" if ledger is None else f"; ids are read up to {ledger.highest}"
        return replace(absent, sentence=f"{options.table} has no committed row with this id now{highest}")
    gap = next((gap for gap in ledger.gaps if gap.low <= number <= gap.high), None)
    names = [] if gap is None else sorted(gap.holders)
    holders = [
        {"transaction": name, "pid": ledger.holders[name].pid, "since": ledger.holders[name].since}
        for name in names
        if name in ledger.holders
    ]
    who = "; ".join(
        f"transaction {each['transaction']} ({'prepared' if each['pid'] is None else 'pid ' + str(each['pid'])},"
        f" open since {each['since']})"
        for each in holders
    )
    sentence = f"its id lies in a gap: {who} may still commit it"
    if not holders:
        sentence = "its id lies in a gap that no transaction keeps open any more: the next poll decides"
    return replace(absent, state="waiting", sentence=sentence, facts={"reason": "gap", "holders": holders})


async def _explain_key(table: WatchedTable, item: str, position: StoredPosition | None) -> Explanation:
    options, facts = table.options, table.facts
    key = key_of(item, tuple(facts.primary_key))
    if isinstance(key, Explanation):
        return key
    column, zone = quoted(options.column), options.by_update.time_zone
    key_as_json = primary_key_as_json(facts.primary_key, facts.types)
    moment = f"{column}::timestamptz" if zone is None else f"({column} AT TIME ZONE '{zone}')"
    sql = row_of_key(
        options.source,
        names=facts.primary_key,
        key=key_as_json,
        where=options.where,
        above=f"{column} > {in_time_zone('$2::text', zone)}",
        written=f"to_char({moment} AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.US\"Z\"')",
    )
    start = moment_text(options.start) if isinstance(options.start, datetime) else BEFORE_ALL_TIME
    try:
        [typed] = await table.fetch(key_of_values(options.source, key_as_json), json.dumps(key))
    except UnreadableRows:
        return outside(f"{json.dumps(key, ensure_ascii=False)} is no key of {options.table}")
    named = replace(options.name_item(item), name=parse_all([typed["key"]])[0])
    try:
        row = await _row(table, sql, key, start)
    except UnreadableRows as error:
        return _unreadable(named, error, options)
    if row is None:
        return replace(named, state="missing", sentence=f"{options.table} has no row with this key now")
    snapshot = TransactionSnapshot(xmin=row["xmax"], xmax=row["xmax"])
    place = RowPlace(relation=row["relation"], block=row["place"][0], number=row["place"][1])
    begun = position is not None and "floor" in position.state
    window = VersionWindow.from_state(position.state, position.rows) if begun and position is not None else None
    is_handled = None if window is None else window.accounts_for(snapshot.widen(row["xid"]), place)
    passes_over = options.start == "now" if position is None else not begun
    return explain_version(dict(row), options, is_handled=is_handled, passes_over=passes_over)


def explain_version(
    row: Mapping[str, Any], options: NewRowsOptions, *, is_handled: bool | None, passes_over: bool
) -> Explanation:
    """Return what a watcher in mode `updated_at` did, or will do, with a row's present version (pure).

    `is_handled` None: the watcher has not begun. `passes_over` is as `explain_id` has it.
    """

    def answer(state: Any, sentence: str, **facts: Any) -> Explanation:
        about = {options.column: row["written"], **facts}
        name = parse_all([row["key"]])[0]
        return Explanation(state=state, sentence=sentence, facts=about, name=name, written=row["written"])

    if not row["keep"]:
        return answer("not_matched", f"the row does not meet `where: {options.where}`", where=options.where)
    if not row["above"] and is_handled is not False:
        return answer("before_start", f"it was last written at {row['written']}, before `start: {options.start}`")
    if passes_over:
        return answer("before_start", _PASSED)
    if is_handled:
        return answer("reported", f"its version of {row['written']} is handled")
    return answer("waiting", "its present version is not reported yet: the next poll reports it", reason="poll")


async def _row(table: WatchedTable, sql: str, key: Mapping[str, Any], start: str) -> Any:
    """Return the row, or None if there is none."""
    rows = await table.fetch(sql, json.dumps(key), start)
    return rows[0] if rows else None


def _unreadable(named: Explanation, error: UnreadableRows, options: NewRowsOptions) -> Explanation:
    """Return the answer for a row of which `where` cannot be computed."""
    if options.on_bad_row == "report":
        return replace(named, state="rejected", sentence=f"the row cannot be reported: {error}")
    sentence = f"the row cannot be reported, and the watcher stops at it: {error}"
    return replace(named, state="waiting", sentence=sentence, facts={"reason": "fault"})
