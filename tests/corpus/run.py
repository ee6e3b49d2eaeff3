"""Read every case by every way, and compare what is read with the source.

`python -m tests.corpus.run` fails if a value differs from the source, or an outcome from `values.json`; `--write` writes that file.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from fnmatch import fnmatch
from functools import cached_property, partial
from itertools import chain, islice
from typing import Any, Final

import anyio

from tests.corpus import csv_cases, in_process, json_cases, parquet_cases, results, rows, tables, with_spark
from tests.corpus.model import Anything, Case, Group, Reading, Verdict, Wide
from tests.corpus.postgres_cases import RowGroup
from tests.corpus.results import Results
from tests.corpus.with_spark import World, readings

BLOCKS: Final = (None, 1, 7, 100)
"""The largest blocks, in bytes, in which the way `parser` gives each file to its parser."""
SHOWN: Final = 100
"""Differences and changes that are printed."""
LARGE: Final = 50_000
"""Bytes of files that are not given in blocks of a few bytes."""


def cases() -> Iterator[Anything]:
    """Every file of the corpus."""
    yield from chain(
        csv_cases.groups(), csv_cases.cases(), json_cases.groups(), json_cases.cases(), parquet_cases.cases()
    )


def alone(group: Group) -> Iterable[tuple[str, str, Verdict, str]]:
    """The verdicts of a group's texts, each in a file of its own."""
    readings = [in_process.read(group.alone(at)) for at in range(len(group.tokens))]
    refused = next((reading.refused for reading in readings if reading.refused), None)
    together = Reading(
        rows=[row for reading in readings for row in reading.rows],
        bad=[record for reading in readings for record in reading.bad],
        refused=refused,
    )
    return group.verdicts(together)


@dataclass
class Corpus:
    """A run of the corpus. Servers and Spark are started when a way needs them."""

    results: Results
    stack: ExitStack
    short: bool
    """Whether ways with Spark try some of the files only: those of shared kinds, and every seventh other."""
    filled: list[tuple[RowGroup, list[Any]]] = field(default_factory=list)

    @cached_property
    def dsn(self) -> str:
        dsn, self.filled = self.stack.enter_context(rows.tables())
        return dsn

    @cached_property
    def world(self) -> World:
        return self.stack.enter_context(with_spark.world(self.dsn))

    @cached_property
    def wide(self) -> Mapping[str, Wide]:
        """All groups of a source in one file each."""
        groups = {"csv": list(csv_cases.groups()), "json": list(json_cases.groups())}
        return {source: Wide.of(source, of_source) for source, of_source in groups.items()}

    @cached_property
    def files(self) -> list[Case]:
        """The single files that the ways with Spark read."""
        files = [case for case in cases() if isinstance(case, Case)]
        return files[::7] if self.short else files

    def by_parser(self) -> None:
        """All files by the parsers alone, in blocks of several sizes: the outcome is that of the first that differs."""
        for case in cases():
            for largest in BLOCKS:
                if len(case.input.content) <= LARGE or largest not in {1, 7}:
                    verdicts = list(case.verdicts(in_process.read(case.input, largest, seed=largest or 0)))
                    self.results.add(case.input.source, "parser", verdicts)
                    if any(verdict == "different" for _, _, verdict, _ in verdicts):
                        break
            if isinstance(case, Group):
                self.results.add(case.input.source, "parser, alone", alone(case))

    def by_row_reader(self) -> None:
        rows.try_all(self.results, "rows", rows.in_process(self.dsn), self.filled)

    def in_events(self) -> None:
        anyio.run(rows.in_events, self.results, self.dsn, self.filled)

    def by_pgrows(self) -> None:
        rows.try_all(self.results, "pgrows", rows.by_tables(rows.by_spark(self.world.run.read)), self.filled)

    def by_read(self, way: str, place: str) -> None:
        """The files by `r.read`: all groups of a source at once, and each single file."""
        write = getattr(self.world, place)
        for source, wide in self.wide.items():
            self.results.add(source, way, wide.verdicts(next(readings(write, self.world, [wide.input]))))
        if way != "s3 packed":  # a file in the corpus may be packed itself
            every = zip(self.files, readings(write, self.world, [case.input for case in self.files]), strict=True)
            for case, reading in every:
                self.results.add(case.input.source, way, case.verdicts(reading))

    def by_ingest(self, way: str) -> None:
        alone = [case for case in self.files if case.input.source == "parquet"]
        tables.ingest_all(self.results, self.world, way, self.wide, alone)
        load = tables.ingest_rows(self.world, way)
        with_odd = way == "parquet" and not self.short  # what is odd is read alike, whatever is written
        filled = [each for each in self.filled if each[0].representable or with_odd]
        rows.try_all(self.results, f"ingest {way}", rows.by_tables(load), filled)

    def by_append(self, way: str) -> None:
        tables.append(self.results, self.world, way)


WAYS: Final[Mapping[str, Callable[[Corpus], None]]] = {
    "parser": Corpus.by_parser,
    "rows": Corpus.by_row_reader,
    "event": Corpus.in_events,
    "pgrows": Corpus.by_pgrows,
    "folder": partial(Corpus.by_read, way="folder", place="local"),
    "s3": partial(Corpus.by_read, way="s3", place="on_s3"),
    "s3 packed": partial(Corpus.by_read, way="s3 packed", place="packed_on_s3"),
    **{f"append {way}": partial(Corpus.by_append, way=way) for way in ("parquet", "s3", "delta", "iceberg")},
    **{f"ingest {way}": partial(Corpus.by_ingest, way=way) for way in ("parquet", "delta", "iceberg")},
}
WITHOUT_SPARK: Final = ("parser", "rows", "event")


def run(*patterns: str, short: bool = False) -> Results:
    """The outcomes of the ways whose names match one of the patterns."""
    with ExitStack() as stack:
        corpus = Corpus(Results(), stack, short)
        for name, way in WAYS.items():
            if any(fnmatch(name, pattern) for pattern in patterns):
                begun, before = time.monotonic(), len(corpus.results.outcomes)
                way(corpus)
                print(
                    f"{name}: {len(corpus.results.outcomes) - before} cells, {time.monotonic() - begun:.0f} s",
                    flush=True,
                )
    return corpus.results


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--ways", default="*", help="patterns of names, separated by commas: parser, folder, s3, ingest *, …"
    )
    parser.add_argument("--short", action="store_true", help="some cases of the ways with Spark")
    parser.add_argument("--write", action="store_true", help="write values.json")
    options = parser.parse_args(arguments)
    new = run(*options.ways.split(","), short=options.short)
    for cell, what in islice(new.differences.items(), SHOWN):
        print(f"different: {cell.source} {cell.kind} by {cell.way}: {cell.name}: {what[:300]}")
    changed = [] if options.write else results.changes(results.load(), new, some=options.short)
    for line in changed[:SHOWN]:
        print(f"changed: {line}")
    if options.write:
        results.save(results.merged(results.load(), new))
    print(f"{len(new.outcomes)} cells, {len(new.differences)} differ from the source, {len(changed)} changes")
    return 1 if new.differences or changed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
