"""The ways of rows of PostgreSQL: read in this process, by Spark, and as values in events."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from decimal import Decimal, InvalidOperation
from typing import Any, Final

import pyarrow as pa
from psycopg import sql
from pyspark.sql.datasource import InputPartition

from asset_job.errors import AssetJobError
from asset_job.sources.pgrows import PgRowsReader, Postgres, rows_reader
from asset_job.sources.request import OnUnrepresentable, RowSelection
from tests.corpus.canonical import Canonical, rows_of, shown
from tests.corpus.model import Verdict
from tests.corpus.postgres_cases import RowGroup, canonical_of, connected, groups, join
from tests.corpus.results import Results
from tests.servers import running_postgres
from tests.service.postgres.tiny_host import hosted

SOURCE: Final = "postgres"
Read = Callable[[RowGroup, OnUnrepresentable], "dict[int, Canonical] | str"]
"""Reads a table: the value of each row, or the sentence with which it was refused. A row that is bad has `BAD_ROW`."""
Load = Callable[[str, OnUnrepresentable], pa.Table]
"""Reads a table with the column `id`. Bad rows are rows of nulls."""
BAD_ROW: Final = {"bad": True}


@contextmanager
def tables(some: Sequence[RowGroup] | None = None) -> Iterator[tuple[str, list[tuple[RowGroup, list[Any]]]]]:
    """A database with the table of each group: its address, and the groups with their values as PostgreSQL writes them.

    The groups are those of the corpus, or `some`.
    """
    with running_postgres() as server, server.database() as database, connected(database.dsn) as connection:
        filled = []
        for group in groups() if some is None else some:
            group.create(connection)
            filled.append((group, group.texts(connection)))
        if some is None:
            join(connection, [group for group, _ in filled if group.representable])
        yield database.dsn, filled


def try_all(results: Results, way: str, read: Read, filled: Sequence[tuple[RowGroup, list[Any]]]) -> None:
    """Compare what a way reads of each table with what PostgreSQL has."""
    for group, texts in filled:
        if group.representable:
            expected = [canonical_of(text, group.kind) for text in texts]
            results.add(SOURCE, way, _compared(group, "row", expected, read(group, "fail")))
            continue
        refusal = read(group, "fail")
        is_named = isinstance(refusal, str) and group.table in refusal and " v " in refusal
        verdict: Verdict = "refused" if is_named else "different"
        results.add(
            SOURCE, way, [(group.kind, "a table with such rows, on_unrepresentable: fail", verdict, str(refusal))]
        )
        results.add(SOURCE, way, _compared(group, "bad", [BAD_ROW] * len(texts), read(group, "bad"), "refused"))
        results.add(SOURCE, way, _compared(group, "null", [None] * len(texts), read(group, "null"), "documented"))
        results.add(SOURCE, way, _compared(group, "text", texts, read(group, "text"), "documented"))


def _compared(
    group: RowGroup,
    name: str,
    expected: Sequence[Canonical],
    read: dict[int, Canonical] | str,
    right: Verdict = "equal",
) -> Iterator[tuple[str, str, Verdict, str]]:
    for at, value in enumerate(expected):
        literal = group.literals[at]
        same = not isinstance(read, str) and at in read and read[at] == value
        what = read if isinstance(read, str) else shown(read.get(at, "no row"))
        yield group.kind, f"{name} {'NULL' if literal is None else literal!r}", right if same else "different", what
    if not isinstance(read, str) and read.keys() - set(range(len(expected))):
        yield group.kind, f"{name}: rows that the table lacks", "different", str(read)


def in_process(dsn: str) -> Read:
    """Rows by the reader alone, without Spark. Numerics are texts still, which are the same."""

    def read(group: RowGroup, mode: OnUnrepresentable) -> dict[int, Canonical] | str:
        rows = RowSelection(table=f"public.{group.table}", column="id", ranges=[(0, 1_000_000)])
        try:
            reader = rows_reader(Postgres(uri=dsn), rows, mode=mode, tasks=1)
            return _values(reader)
        except (AssetJobError, pa.ArrowException) as error:
            return str(error)

    return read


def _values(reader: PgRowsReader) -> dict[int, Canonical]:
    values: dict[int, Canonical] = {}
    bad = 0
    for query in reader.queries:
        for batch in reader.read(InputPartition(query)):
            for number, value, *report in rows_of(batch):
                if report and report[0] is not None:
                    values[bad] = BAD_ROW
                    bad += 1
                else:
                    values[int(number)] = value
    return values


def by_tables(load: Load) -> Read:
    """Rows by what reads whole tables. What is representable is read at once, from the table that has all types."""
    wide: dict[str, dict[int, Canonical] | str] = {}

    def read(group: RowGroup, mode: OnUnrepresentable) -> dict[int, Canonical] | str:
        if not group.representable:
            return _columns(load, group.table, mode).get("v", "no column v")
        if not wide:
            wide.update(_columns(load, "wide", mode))
        column = wide.get(group.table, str(wide))
        return (
            column if isinstance(column, str) else {at: column[at] for at in range(len(group.literals)) if at in column}
        )

    return read


def by_spark(spark_read: Callable[..., Any]) -> Load:
    """Loads a table by `r.read`."""

    def load(table: str, mode: OnUnrepresentable) -> pa.Table:
        kept = {"mode": "PERMISSIVE"} if mode == "bad" else {}
        frame = spark_read([(0, 1000)], table=f"public.{table}", on_unrepresentable=mode, **kept)
        loaded: pa.Table = frame.toArrow()
        return loaded

    return load


def _columns(load: Load, table: str, mode: OnUnrepresentable) -> dict[str, dict[int, Canonical] | str]:
    """The columns of a table, each value by its row's id. The sentence of a refusal is that of the column `v`."""
    try:
        loaded = load(table, mode)
    except Exception as error:  # noqa: BLE001 - Spark raises classes of its own
        return {"v": str(error)}
    rows = rows_of(loaded)
    bad = dict.fromkeys(range(sum(row[0] is None for row in rows)), BAD_ROW)
    return {
        name: {int(row[0]): row[at] for row in rows if row[0] is not None} | bad
        for at, name in enumerate(loaded.column_names)
    }


async def in_events(results: Results, dsn: str, filled: Sequence[tuple[RowGroup, list[Any]]]) -> None:
    """Compare the values in events with the table's: PostgreSQL itself reads them back from the event's JSON."""
    with connected(dsn) as connection:
        for group, texts in filled:
            async with hosted(dsn, table=f"public.{group.table}", start="all", columns=["id", "v"]) as host:
                rows = [row for event in host.committed.events for row in json.loads(json.dumps(event.payload["rows"]))]
            literal = sql.Literal(json.dumps(rows)).as_string()
            again = group.texts(connection, f"json_populate_recordset(NULL::{group.table}, {literal})")
            expected = texts
            if group.kind in {"json", "jsonb"}:
                expected, again = [_numbers(text) for text in texts], [_numbers(text) for text in again]
            read = {row["id"]: value for row, value in zip(rows, again, strict=True)}
            results.add(SOURCE, "event", _compared(group, "row" if group.representable else "odd", expected, read))


def _numbers(text: str | None) -> Any:
    """What JSON says, with one text for each number: an event has a number that no float holds as text."""
    return text and _same(json.loads(text, parse_float=str, parse_int=str))


def _same(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _same(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_same(item) for item in value]
    try:
        return str(Decimal(value).normalize()) if isinstance(value, str) else value
    except InvalidOperation:
        return value
