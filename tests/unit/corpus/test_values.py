"""The corpus of values by the readers alone, its page, and the programs that judge them."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
from collections import Counter
from fractions import Fraction
from pathlib import Path

import pyarrow as pa
import pytest

from tests.corpus import fuzz, mutants, results, run
from tests.corpus.canonical import canonical, day_text, days_of, nearest_float, rows_of
from tests.corpus.forms import BAD, allowed
from tests.corpus.model import Case, Expected, Reading
from tests.corpus.page import PAGE, page
from tests.corpus.rfc4180 import CsvFile, Dialect
from tests.corpus.rfc8259 import records
from tests.effort import LONG, SEED, effort

SOME_MUTANTS = list(mutants.MUTANTS)[::6]
"""Each takes some ten seconds; WATCHER_TEST_LONG has them all."""

SHARED = "newline_in_quotes doubled_quote backslash_at_end empty_quoted unclosed_quote row_more latin1 dec_round time_only zip pretty"


def test_every_value_that_the_readers_make_of_a_file_is_the_files() -> None:
    new = run.run("parser")
    assert [f"{cell.source} {cell.kind} {cell.name}: {what}" for cell, what in new.differences.items()] == []
    assert results.changes(results.load(), new) == [], "python -m tests.corpus.run --ways parser --write"


def test_the_page_agrees_with_the_outcomes() -> None:
    values = json.loads(results.VALUES.read_text(encoding="utf-8"))
    assert PAGE.read_text(encoding="utf-8") == page(values), "python -m tests.corpus.page"


def test_the_kept_outcomes_have_no_difference_and_all_ways() -> None:
    kept = results.load()
    assert set(kept.ways) == {*run.WAYS, "parser, alone"}
    assert Counter(kept.outcomes.values())["different"] == 0
    assert len(kept.outcomes) > 20_000


def test_every_cell_has_a_name_of_its_own() -> None:
    names = Counter((case.input.source, *cell) for case in run.cases() for cell in case.cells)
    assert [name for name, count in names.items() if count > 1] == []
    single = {case.name for case in run.cases() if isinstance(case, Case)}
    assert set(SHARED.split()) <= single


def test_files_by_chance_are_read_as_strict_readers_read_them() -> None:
    faults = [
        fault
        for kind in fuzz.TRIALS
        for seed in range(SEED, SEED + effort(150, 2_000))
        if (fault := fuzz.tried(kind, seed))
    ]
    assert faults == []


def killed(_kinds: object, _seeds: object, _faults: object, now: object) -> None:
    now.value = 7  # type: ignore[attr-defined]
    os.kill(os.getpid(), signal.SIGSEGV)


def test_a_process_that_dies_is_a_fault_that_names_the_seed() -> None:
    context = multiprocessing.get_context("spawn")
    now, faults = context.Value("q", 1), context.SimpleQueue()
    child = context.Process(target=killed, args=((), (), faults, now))
    child.start()
    assert list(fuzz.faults_of(child, faults, now)) == ["died with -11 at seed 7"]


@pytest.mark.slow
@pytest.mark.parametrize("name", mutants.MUTANTS if LONG else SOME_MUTANTS)
def test_a_planted_fault_is_noticed(name: str) -> None:
    mutant = mutants.MUTANTS[name]
    assert mutants.outcome(name, mutant, mutant.source) is not None


@pytest.mark.parametrize("name", mutants.MUTANTS)
def test_a_fault_can_be_planted(name: str) -> None:
    mutant = mutants.MUTANTS[name]
    text = Path(mutants.ROOT, mutants.SOURCES, mutant.file).read_text(encoding="utf-8")
    assert {old: text.count(old) for old in mutant.changes} == dict.fromkeys(mutant.changes, 1)


# The judges


def test_days_are_counted_in_the_proleptic_gregorian_calendar() -> None:
    texts = {
        0: "1970-01-01",
        -719_162: "0001-01-01",
        2_932_896: "9999-12-31",
        -719_528: "0000-01-01",
        -2_440_588: "-4713-11-24",
    }
    assert {days: day_text(days) for days in texts} == texts
    assert all(
        day_text(days_of(year, 2, 28) + 1)[-5:] == ("02-29" if year % 4 == 0 else "03-01") for year in range(1, 100)
    )


def test_arrow_values_have_one_text() -> None:
    moment = pa.array([253_402_300_799_999_999, -1], pa.int64())
    table = pa.table({"a": moment.cast(pa.timestamp("us", "Asia/Kolkata")), "b": moment.cast(pa.timestamp("us"))})
    assert rows_of(table) == [
        ("9999-12-31T23:59:59.999999Z", "9999-12-31T23:59:59.999999"),
        ("1969-12-31T23:59:59.999999Z", "1969-12-31T23:59:59.999999"),
    ]
    assert canonical(pa.scalar([("k", -0.0)], pa.map_(pa.string(), pa.float32()))) == [["k", "-0.0"]]
    assert canonical(pa.array([True]).dictionary_encode()[0]) == "true"


@pytest.mark.parametrize(
    ("text", "kind", "expected"),
    [
        ("1.005", "decimal(10,2)", (BAD,)),
        ("1.50", "decimal(10,2)", ("1.50",)),
        ("1e400", "double", (BAD,)),
        ("16777217", "float", ("16777216.0",)),
        ("128", "byte", (BAD,)),
        ("10:30", "timestamp", (BAD,)),
        ("2024-01-01 10:30:00.1234567", "timestamp", (BAD,)),
        ("2024-01-01T10:30:00+02", "timestamp", ("2024-01-01T08:30:00Z",)),
        ("2024-01-01T10:30:00Z", "timestamp_ntz", (BAD,)),
        ("2024-02-30", "date", (BAD,)),
        ("yes", "boolean", (BAD,)),
        ("٣", "int", (BAD,)),
    ],
)
def test_forms_say_what_a_text_is(text: str, kind: str, expected: tuple[object, ...]) -> None:
    assert allowed(text, kind) == expected


def test_floats_are_rounded_to_the_nearest() -> None:
    assert nearest_float(Fraction(2**24 + 1), single=True) == 2.0**24
    assert nearest_float(Fraction(2**24 + 3), single=True) == 2.0**24 + 4
    assert nearest_float(Fraction(10) ** 39, single=True) is None
    assert nearest_float(Fraction(10) ** 39, single=False) == 1e39


def test_the_strict_reader_of_csv() -> None:
    text = 'id,v\r\n1,"a\r\n""b"""\r\n\r\n2,x"y\r\n3\r\n4,"open'
    read = [
        (record.text, record.fault, [field.text for field in record.fields])
        for record in CsvFile(text, Dialect(columns=2)).records()
    ]
    assert read == [
        ("id,v", None, ["id", "v"]),
        ('1,"a\r\n""b"""', None, ["1", 'a\r\n"b"']),
        ('2,x"y', "quote", ["2"]),
        ("3", "fields", ["3"]),
        ('4,"open', "open", []),
    ]


def test_the_strict_reader_of_json() -> None:
    read = records('{"a": 1.10}\n{"a": NaN}\n{"a": 1}{"a":\n[{"a": 2}, 3]')
    assert [(record.text, record.fault) for record in read] == [
        ('{"a": 1.10}', None),
        ('{"a": NaN}', "syntax"),
        ('{"a": 1}{"a":', "syntax"),
        ('{"a": 2}', None),
        ("3", "no object"),
    ]


def test_a_verdict_needs_rows_bad_records_and_types() -> None:
    expected = Expected(rows=[("1",)], bad=["x"], types="v long")
    assert expected.verdict(Reading(rows=[("1",)], bad=[("x", 1)], types="v long")) == "refused"
    assert expected.verdict(Reading(rows=[("1",)], bad=[("y", 1)], types="v long")) == "different"
    assert expected.verdict(Reading(rows=[("1",)], types="v long")) == "different"
    assert expected.verdict(Reading(rows=[("1",)], bad=[("x", 1)], types="v int")) == "different"
    assert expected.verdict(Reading(rows=[("2",)], bad=[("x", 1)], types="v long")) == "different"
    assert expected.verdict(Reading(refused="a.csv is wrong")) == "different"
    assert Expected(refused="a.csv").verdict(Reading(refused="a.csv is wrong")) == "refused"
    assert Expected(refused="a.csv").verdict(Reading(refused="wrong")) == "different"
