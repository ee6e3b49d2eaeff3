"""Plant faults in copies of the readers, and show that the corpus or the fuzzer notices each: `python -m tests.corpus.mutants`."""

from __future__ import annotations

import argparse
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
SOURCES: Final = "sdk/asset_job/sources"
FILES: Final = 1000
"""Files that the fuzzer tries for a mutant which the corpus does not notice."""
NOTICED: Final = 3
"""The exit code of a check that noticed something."""


@dataclass(frozen=True, kw_only=True)
class Mutant:
    """A fault: texts of a file that are replaced."""

    source: str
    file: str
    changes: Mapping[str, str]


MUTANTS: Final[Mapping[str, Mutant]] = {
    "csv: CR is no line end": Mutant(
        source="csv", file="csv/dialect.py", changes={'BREAKS = b"\\r\\n"': 'BREAKS = b"\\n"'}
    ),
    "csv: doubled quotes stay doubled": Mutant(
        source="csv",
        file="csv/opening.py",
        changes={"newlines_in_values=True,": "newlines_in_values=True, double_quote=False,"},
    ),
    "csv: an empty text in quotes is null": Mutant(
        source="csv",
        file="csv/opening.py",
        changes={"quoted_strings_can_be_null=False": "quoted_strings_can_be_null=True"},
    ),
    "csv: a blank line is a row": Mutant(
        source="csv", file="csv/opening.py", changes={"ignore_empty_lines=len(names) > 1": "ignore_empty_lines=False"}
    ),
    "csv: bad records are dropped": Mutant(
        source="csv", file="csv/parser.py", changes={"                yield segment": "                continue"}
    ),
    "csv: a last record without line end is lost": Mutant(
        source="csv", file="csv/grammar.py", changes={"        if waiting:": "        if waiting.endswith(end):"}
    ),
    "csv: text behind a quote is dropped": Mutant(
        source="csv",
        file="csv/dialect.py",
        changes={r'rb"(?:%b%b%b|(%b%b))"': r'rb"(?:%b%b%b[^,\r\n]*|(%b%b))"'},
    ),
    "files: a byte order mark stays": Mutant(
        source="csv",
        file="texts/encodings.py",
        changes={"first, own = first.removeprefix(mark), name": "own = name"},
    ),
    "files: .GZ in capitals is no packing": Mutant(
        source="csv",
        file="packing.py",
        changes={"    lower = name.lower()\n    return next(": "    lower = name\n    return next("},
    ),
    "texts: decimals are rounded": Mutant(
        source="csv", file="texts/forms.py", changes={"fits = scaled == scaled.to_integral_value() and": "fits ="}
    ),
    "texts: a number too large is infinity": Mutant(
        source="csv",
        file="texts/forms.py",
        changes={"pc.or_(pc.and_(pc.is_inf(values), pc.invert(named)), nothing)": "nothing"},
    ),
    "texts: the offset of a zone is dropped": Mutant(
        source="csv",
        file="texts/forms.py",
        changes={
            'zoned = pc.binary_join_element_wise(zoned, offsets, "")': 'zoned = pc.binary_join_element_wise(zoned, "Z", "")'
        },
    ),
    "texts: yes and no are flags": Mutant(
        source="csv",
        file="texts/forms.py",
        changes={'"^(?i:true|false|t|f)$"': '"^(?i:true|false|t|f|yes|no)$"'},
    ),
    "json: numbers go through doubles": Mutant(
        source="json",
        file="json/plain.py",
        changes={"        return pa.decimal256(76, kind.scale)": "        return pa.float64()"},
    ),
    "json: of a name that comes twice the last value is taken": Mutant(
        source="json",
        file="json/columns.py",
        changes={"if isinstance(value, Repeated) and (": "if False and ("},
    ),
    "json: numbers with a point go through floats": Mutant(
        source="json",
        file="json/strict.py",
        changes={"parse_float=Number,": "parse_float=lambda text: Number(repr(float(text))),"},
    ),
    "json: what is behind a broken line is lost": Mutant(
        source="json",
        file="json/values.py",
        changes={"            if not self.lines:\n": "            if self._within or True:\n"},
    ),
    "parquet: INT96 is read as nanoseconds": Mutant(
        source="parquet",
        file="parquet/content.py",
        changes={"coerce_int96_timestamp_unit=unit": 'coerce_int96_timestamp_unit="ns"'},
    ),
    "parquet: nanoseconds are cut off": Mutant(
        source="parquet",
        file="parquet/conversion.py",
        changes={'if truncate and array.type.unit == "ns"': 'if array.type.unit == "ns"'},
    ),
    "parquet: the old calendar is not known": Mutant(
        source="parquet", file="parquet/calendars.py", changes={' or "org.apache.spark.legacyDateTime" in marks': ""}
    ),
    "postgres: infinity is clipped": Mutant(
        source="postgres",
        file="postgres_sql.py",
        changes={'''"date": "'infinity' = {value} OR '-infinity' = {value}"''': '"date": "false"'},
    ),
    "postgres: arrays lose their shape": Mutant(
        source="postgres", file="postgres_sql.py", changes={"array_ndims({name}) > 1 OR ": ""}
    ),
}


def planted(mutant: Mutant | None, folder: Path) -> None:
    """Copy what the corpus needs, with the fault. Raises ValueError if the texts are not there exactly once."""
    for part in ("sdk", "tests", "triggers", "store", "config", "watcher"):
        shutil.copytree(ROOT / part, folder / part, ignore=shutil.ignore_patterns("__pycache__", "node_modules"))
    if mutant is not None:
        path = folder / SOURCES / mutant.file
        text = path.read_text(encoding="utf-8")
        for old, new in mutant.changes.items():
            if text.count(old) != 1:
                raise ValueError(f"{mutant.file} has {old!r} {text.count(old)} times")
            text = text.replace(old, new)
        path.write_text(text, encoding="utf-8")


def noticed(source: str) -> str | None:
    """What notices that this copy reads otherwise: the first cell or file. None: nothing does."""
    from tests.corpus import fuzz, in_process, results, run  # noqa: PLC0415 - of the copy in which this runs
    from tests.corpus.model import Group  # noqa: PLC0415

    outcomes = run.run("rows") if source == "postgres" else results.Results()
    for case in run.cases() if source != "postgres" else ():
        if case.input.source == source and not outcomes.differences:
            for largest in (None, 100):
                outcomes.add(source, "parser", case.verdicts(in_process.read(case.input, largest)))
            if isinstance(case, Group):
                outcomes.add(source, "parser, alone", run.alone(case))
    for cell, what in outcomes.differences.items():
        return f"corpus: {cell.kind} {cell.name}: {what}"
    for change in results.changes(results.load(), outcomes, some=True):
        return f"corpus: {change}"
    seeds = (random.Random(at).randrange(2**40) for at in range(FILES if source in fuzz.TRIALS else 0))
    return next((f"fuzz: {fault}" for seed in seeds if (fault := fuzz.tried(source, seed))), None)


def outcome(name: str, mutant: Mutant | None, source: str) -> str | None:
    """What notices the mutant. A process that dies notices it too."""
    with tempfile.TemporaryDirectory(prefix="mutant") as folder:
        planted(mutant, Path(folder))
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join([folder, f"{folder}/sdk"]),
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        command = [sys.executable, "-m", "tests.corpus.mutants", "--check", source]
        child = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if child.returncode < 0:
        return f"the process died by signal {-child.returncode}"
    if child.returncode not in {0, NOTICED}:
        raise RuntimeError(f"{name}: {child.stderr[-2000:]}")
    return child.stdout.strip().splitlines()[-1] if child.returncode else None


def outcomes(pattern: str) -> Iterator[tuple[str, str | None]]:
    """The mutants whose names have the pattern, each with what notices it."""
    for name, mutant in MUTANTS.items():
        if pattern in name:
            yield name, outcome(name, mutant, mutant.source)


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="mutants whose names have this")
    parser.add_argument("--check", metavar="SOURCE", help="check this copy, without a mutant")
    options = parser.parse_args(arguments)
    if options.check:
        what = noticed(options.check)
        print((what or "nothing").replace("\n", " ")[:300])
        return NOTICED if what else 0
    missed = 0
    for source in sorted({mutant.source for name, mutant in MUTANTS.items() if options.only in name}):
        what = outcome("no mutant", None, source)
        print(f"{source} without a mutant: {what or 'nothing is noticed'}", flush=True)
        missed += what is not None
    for name, what in outcomes(options.only):
        print(f"{name}: {what or 'NOT NOTICED'}", flush=True)
        missed += what is None
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
