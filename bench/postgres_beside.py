"""Compares polls of `postgres.new_rows` with those of another checkout, on one server and in turns, poll by poll.

Each checkout polls in a process of its own, with this Python. The table shows the median of a poll, as time and as CPU of the
process, and the ratios. `witness: row` is what recognizes rows of a table without a time (`docs/postgres.md`).

    git worktree add ../first REVISION; python bench/postgres_beside.py ../first [--rounds 20]
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import product
from pathlib import Path
from statistics import median

import psycopg

from watcher.shared.servers import running_postgres

HERE = Path(__file__).parents[1]
ROWS, NEW, IDLE_POLLS, FULL_POLLS = 100_000, 1_000, 25, 5
"""The rows of each table, those of a poll with rows, and the polls of a round."""
QUIET = 2.0
"""Seconds without a write before idle polls: mode `updated_at` reads again what was written in the last second."""
WATCHERS = {
    "id, created_at": ("timed", "id"),
    "id, witness: row": ("bare", "id"),
    "updated_at": ("timed", "updated_at"),
}
TABLES = f"""
CREATE TABLE timed (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, note text, n bigint, amount numeric(10,2),
                    created_at timestamptz NOT NULL DEFAULT now(), updated_at timestamptz NOT NULL DEFAULT now());
CREATE INDEX ON timed (updated_at);
CREATE TABLE bare (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, note text, n bigint, amount numeric(10,2));
INSERT INTO timed (note, n, amount) SELECT md5(n::text), n, n / 7.0 FROM generate_series(1, {ROWS}) n;
INSERT INTO bare (note, n, amount) SELECT md5(n::text), n, n / 7.0 FROM generate_series(1, {ROWS}) n;
VACUUM ANALYZE timed; VACUUM ANALYZE bare
"""
INSERT = "INSERT INTO {} (note, n, amount) SELECT md5(n::text), n, n / 7.0 FROM generate_series(1, {}) n"
WORKER = """
import sys, time
from contextlib import aclosing
import anyio, structlog
from triggers.base import TriggerContext
from triggers.postgres.connection import PostgresConnection
from triggers.postgres.new_rows import NewRows
from triggers.postgres.options import NewRowsOptions

async def poll(trigger):
    async with aclosing(trigger.poll(None)) as batches:
        return sum([event.count async for batch in batches for event in batch.events])

async def main():
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger("warning"))
    triggers = {}
    async with PostgresConnection.model_validate({"dsn": sys.argv[1]}).open() as client:
        for line in sys.stdin:
            table, mode = line.split()
            if (table, mode) not in triggers:
                given = {"table": f"public.{table}", "mode": mode, "batch": {"max_rows": 2000}}
                if mode == "updated_at":
                    given |= {"column": mode} | ({"lateness": "0s"} if "lateness" in NewRowsOptions.model_fields else {})
                context = TriggerContext(watcher=f"{table} {mode}")
                trigger = triggers[table, mode] = NewRows(NewRowsOptions.model_validate(given), client, context)
                findings = await trigger.check()
                assert not [each for each in findings if each.level == "error"], findings
            trigger = triggers[table, mode]
            began, worked = time.perf_counter(), time.process_time()
            rows = await poll(trigger)
            print((time.perf_counter() - began) * 1000, (time.process_time() - worked) * 1000, rows, flush=True)

anyio.run(main)
"""


class Side:
    """One checkout's watchers, in a process of their own."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self.spent: dict[str, list[tuple[float, float]]] = defaultdict(list)

    def poll(self, name: str, kind: str | None, rows: int) -> None:
        """Poll once; `kind` None is not counted."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(*WATCHERS[name], file=self._process.stdin, flush=True)
        milliseconds, cpu, reported = self._process.stdout.readline().split()
        assert int(reported) == rows, (name, kind, reported)
        if kind is not None:
            self.spent[f"{name}, {kind}"].append((float(milliseconds), float(cpu)))


@contextmanager
def side(checkout: Path, dsn: str) -> Iterator[Side]:
    environment = {**os.environ, "PYTHONPATH": str(checkout)}
    command = [sys.executable, "-c", WORKER, dsn]
    with subprocess.Popen(
        command, cwd=checkout, env=environment, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        yield Side(process)
        process.communicate()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkout", type=Path, nargs="?")
    parser.add_argument("--rounds", type=int, default=20)
    arguments, _ = parser.parse_known_args()
    if arguments.checkout is None:
        print("nothing to compare with: name the folder of another checkout")
        return
    with running_postgres() as dsn, psycopg.connect(dsn, autocommit=True) as writer, ExitStack() as stack:
        for statement in TABLES.split(";"):
            writer.execute(statement)
        before, now = (stack.enter_context(side(path.resolve(), dsn)) for path in (arguments.checkout, HERE))
        for each, name in product((before, now), WATCHERS):
            each.poll(name, None, 0)  # it begins at now
        for number in range(-1, arguments.rounds):  # the first round is not counted
            take_turns(writer, (before, now) if number % 2 else (now, before), is_counted=number >= 0)
    show(before, now)


def take_turns(writer: psycopg.Connection, turns: Sequence[Side], *, is_counted: bool) -> None:
    for name, (table, _) in WATCHERS.items():
        time.sleep(QUIET)
        for each in turns:
            each.poll(name, None, 0)
        for each in (each for _ in range(IDLE_POLLS) for each in turns):
            each.poll(name, "idle" if is_counted else None, 0)
        for _ in range(FULL_POLLS):
            writer.execute(INSERT.format(table, NEW))
            for each in turns:
                each.poll(name, f"{NEW:,} rows" if is_counted else None, NEW)
        others = [other for other, (same, _) in WATCHERS.items() if other != name and same == table]
        for each, other in product(turns, others):
            each.poll(other, None, NEW * FULL_POLLS)


def show(before: Side, now: Side) -> None:
    print(
        f"{'':30}{'before':>20}{'now':>20}{'ratio':>16}\n{'':30}" + f"{'ms':>12}{'CPU':>8}" * 2 + f"{'ms':>8}{'CPU':>8}"
    )
    for name in before.spent:
        then, today = ([median(kind) for kind in zip(*each.spent[name], strict=True)] for each in (before, now))
        ratios = "".join(f"{new / old:8.2f}" for old, new in zip(then, today, strict=True))
        print(f"{name:30}{then[0]:12.3f}{then[1]:8.3f}{today[0]:12.3f}{today[1]:8.3f}{ratios}")


if __name__ == "__main__":
    main()
