"""Files and rows by chance, through the parsers in this process, against strict readers that share no code with them.

`python -m tests.corpus.fuzz --seed 1 --files 100000`: a failure names its seed, which alone makes the same file again.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import random
import re
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from tests.corpus import in_process, rows
from tests.corpus.forms import BAD, Allowed, allowed
from tests.corpus.model import Input, Reading
from tests.corpus.postgres_cases import by_chance
from tests.corpus.results import Results
from tests.corpus.rfc4180 import CsvField, CsvFile, Dialect
from tests.corpus.rfc8259 import JsonRecord, Members, Number, Undecided, records
from tests.corpus.texts import BROKEN_LINES, KINDS, TEXTS

SURE: Final = {kind: [text for text in TEXTS if text.isprintable() and len(allowed(text, kind)) == 1] for kind in KINDS}
"""Texts of which the promise says one thing."""
FITTING: Final = {kind: [text for text in texts if allowed(text, kind) != (BAD,)] for kind, texts in SURE.items()}


@dataclass(frozen=True, kw_only=True)
class Trial:
    """A file, and what must be read: rows in their order, and the bad records' texts."""

    input: Input
    rows: Sequence[tuple[Any, ...]]
    bad: Sequence[tuple[str, int]]
    """A count of 0: the rest of a file, however it is told. Of a count above 1 only the text is compared."""

    def fault(self, reading: Reading) -> str | None:
        if reading.refused is not None:
            return f"refused: {reading.refused}"
        if list(reading.rows) != list(self.rows):
            at = next(
                (at for at, pair in enumerate(zip(reading.rows, self.rows, strict=False)) if pair[0] != pair[1]), "end"
            )
            some = slice(at, at + 3) if isinstance(at, int) else slice(-3, None)
            return f"rows differ at {at}: {reading.rows[some]}, expected {self.rows[some]}; bad: {reading.bad[:3]}"
        expected = sorted((escaped(text).strip(), count == 1) for text, count in self.bad if count)
        read = sorted((text.strip(), count == 1) for text, count in reading.bad)
        if expected != read and (len(self.bad) == len(expected) or len(reading.bad) != len(self.bad)):
            missing = [pair for pair in expected if pair not in read]
            return f"bad records: {missing[:3]} missing, {[pair for pair in read if pair not in expected][:3]} more"
        return None


def escaped(text: str) -> str:
    """A record's text, with bytes that are none written as `\\xnn`."""
    return "".join(f"\\x{ord(each) - 0xDC00:02x}" if "\udc80" <= each <= "\udcff" else each for each in text)


def csv_trial(chance: random.Random) -> Trial | None:
    """A CSV file: right, of odd records, or with bytes changed by chance. None: the promise leaves open what is read."""
    kinds = [chance.choice(KINDS) for _ in range(chance.randint(1, 4))]
    end = chance.choice(["\n", "\n", "\r\n", "\r"])
    separator = chance.choice([",", ",", ";", "\t", "|"])
    quote = chance.choice(['"', '"', "'"])
    names = [f"c{at}" for at in range(len(kinds))]
    lines = [separator.join(names)]
    odd = chance.choice([0.0, 0.05, 0.3])
    for _ in range(chance.choice([0, 1, 3, 10, 60])):
        values = [_csv_value(chance, kind, separator, quote, odd) for kind in kinds]
        if chance.random() < odd / 2:
            values = values[:-1] if chance.random() < 0.5 else [*values, "more"]
        lines.append("" if chance.random() < odd / 2 else separator.join(values))
    content = (end.join(lines) + (end if chance.random() < 0.8 else "")).encode()
    header = len(lines[0].encode()) + len(end)
    if chance.random() < odd * 2:
        content = _mutated(chance, content, header, separator, quote)
    options = {
        name: value for name, value, default in (("sep", separator, ","), ("quote", quote, '"')) if value != default
    }
    dialect = Dialect(separator=separator, quote=quote, columns=len(kinds))
    inputs = Input(
        source="csv",
        content=(b"\xef\xbb\xbf" if chance.random() < 0.1 else b"") + content,
        file="a.csv",
        schema=", ".join(f"{name} {kind}" for name, kind in zip(names, kinds, strict=True)),
        options=options,
    )
    rows, bad = [], []
    for record in CsvFile(content.decode("utf-8", "surrogateescape"), dialect).records()[1:]:
        if record.fault is None:
            outcomes = [_of_csv(field, kind) for field, kind in zip(record.fields, kinds, strict=True)]
            if any(len(outcome) > 1 for outcome in outcomes) and (BAD,) not in outcomes:
                return None
            if (BAD,) not in outcomes:
                rows.append(tuple(outcome[0] for outcome in outcomes))
                continue
        bad.append((record.text, record.count))
    return Trial(input=inputs, rows=rows, bad=bad)


def _csv_value(chance: random.Random, kind: str, separator: str, quote: str, odd: float) -> str:
    if chance.random() < 0.1:
        return ""
    text = chance.choice((SURE if chance.random() < odd else FITTING)[kind])
    if kind == "string" and chance.random() < 0.3:
        text = chance.choice(BROKEN_LINES) + chance.choice(TEXTS[:50]) + chance.choice([quote, "", separator])
    if chance.random() < odd / 4:
        return text
    if chance.random() < 0.3 or set(text) & {separator, quote, "\r", "\n"}:
        return quote + text.replace(quote, quote * 2) + quote
    return text


def _mutated(chance: random.Random, content: bytes, header: int, separator: str, quote: str) -> bytes:
    changed = bytearray(content)
    for _ in range(chance.randint(1, 3)):
        if len(changed) > header:
            at = chance.randrange(header, len(changed))
            piece = chance.choice([quote, separator, "\n", "\r", "\r\n", "x", " ", quote * 2, "\\", "\xff", "ü", ""])
            changed[at : at + chance.randint(0, 2)] = piece.encode("latin-1" if piece == "\xff" else "utf-8")
    return bytes(changed)


def _of_csv(field: CsvField, kind: str) -> Allowed:
    if not field.text and (not field.quoted or kind == "string"):
        return (None,) if not field.quoted else ("",)
    if not field.text.strip() and kind != "string":
        return (BAD,) if not field.text else (BAD, None)
    return allowed(field.text, kind)


def json_trial(chance: random.Random) -> Trial | None:
    """A JSON file: a value a line, run together, or an array; right or with bytes changed by chance."""
    kinds = [chance.choice(KINDS) for _ in range(chance.randint(1, 4))]
    names = [f"c{at}" for at in range(len(kinds))]
    odd = chance.choice([0.0, 0.05, 0.3])
    objects = []
    for _ in range(chance.choice([1, 1, 3, 10, 60])):
        members = [
            f"{json.dumps(name)}: {_json_value(chance, kind, odd)}" for name, kind in zip(names, kinds, strict=True)
        ]
        members = [member for member in members if chance.random() > 0.1]
        chance.shuffle(members)
        gap = chance.choice(["", " ", "\t"])
        objects.append("{" + gap + f",{gap}".join(members) + gap + "}")
    layout = chance.choice(["lines", "lines", "together", "array", "array of lines"])
    between = {"lines": chance.choice(["\n", "\r\n", "\n\n"]), "together": chance.choice(["", " "]), "array": ", "}.get(
        layout, ",\n"
    )
    text = between.join(objects)
    text = f"[{text}]" if layout == "array" else f"[\n{text}\n]\n" if layout == "array of lines" else text
    content = text.encode()
    if chance.random() < odd * 2:
        content = _json_mutated(chance, content)
    inputs = Input(
        source="json",
        content=content,
        file="a.json",
        schema=", ".join(f"{name} {kind}" for name, kind in zip(names, kinds, strict=True)),
    )
    rows, bad = [], []
    if re.search(rb"\r(?!\n)", content):
        return None
    try:
        parsed = records(content.decode("utf-8", "surrogateescape"))
    except Undecided:
        return None
    for record in parsed:
        outcomes = None if record.fault else _of_json(record, names, kinds)
        if outcomes is not None and any(len(outcome) > 1 for outcome in outcomes) and (BAD,) not in outcomes:
            return None
        if outcomes is None or (BAD,) in outcomes:
            bad.append((record.text, record.count))
        else:
            rows.append(tuple(outcome[0] for outcome in outcomes))
    return Trial(input=inputs, rows=rows, bad=bad)


def _json_value(chance: random.Random, kind: str, odd: float) -> str:
    text = chance.choice((SURE if chance.random() < odd else FITTING)[kind])
    if chance.random() < 0.1:
        return "null"
    if kind in {"string", "date", "timestamp", "timestamp_ntz"}:
        return json.dumps(
            text + chance.choice(["", "", "\n", "\x00"] if kind == "string" else [""]),
            ensure_ascii=chance.random() < 0.5,
        )
    try:
        json.loads(text, parse_constant=float)
    except ValueError:
        return "null"
    return text if text not in {"NaN", "Infinity", "-Infinity"} else "1"


def _json_mutated(chance: random.Random, content: bytes) -> bytes:
    changed = bytearray(content)
    for _ in range(chance.randint(1, 2)):
        at = chance.randrange(len(changed))
        piece = chance.choice([b'"', b",", b"\n", b"}", b"{", b"[", b"x", b" ", b"\\", b"\xff", b"0", b"", b"}{", b":"])
        changed[at : at + chance.randint(0, 2)] = piece
    return bytes(changed)


def _of_json(record: JsonRecord, names: Sequence[str], kinds: Sequence[str]) -> list[Allowed] | None:
    members: dict[str, Any] = {}
    for name, value in record.value:
        if name in members:
            return [(BAD, None)]
        members[name] = value
    if any(name not in names and name.lower() in names for name in members):
        return [(BAD, None)]
    return [_of_member(members.get(name), kind) for name, kind in zip(names, kinds, strict=True)]


def _of_member(value: Any, kind: str) -> Allowed:
    if value is None:
        return (None,)
    if isinstance(value, bool):
        return (str(value).lower(),) if kind == "boolean" else (BAD, "true") if kind == "string" else (BAD,)
    if isinstance(value, (Members, list)):
        return (BAD, "text") if kind == "string" else (BAD,)
    timed = kind in {"date", "timestamp", "timestamp_ntz"}
    if isinstance(value, Number):
        return (BAD, "text") if kind == "string" else (BAD,) if timed or kind == "boolean" else allowed(value, kind)
    if kind != "string" and not value.strip():
        return (BAD,) if value == "" else (BAD, None)
    values = allowed(value, kind)
    return values if timed or kind == "string" else tuple(dict.fromkeys((*values, BAD)))


STALLED: Final = 60.0
"""Seconds in which any file is read."""
TRIALS: Final[dict[str, Callable[[random.Random], Trial | None]]] = {"csv": csv_trial, "json": json_trial}


def tried(kind: str, seed: int) -> str | None:
    """What is wrong with what is read of the file of this seed. None: nothing."""
    chance = random.Random(seed)
    trial = TRIALS[kind](chance)
    if trial is None:
        return None
    largest = chance.choice([None, None, 1, 5, 64, 1000])
    try:
        fault = trial.fault(in_process.read(trial.input, largest, seed))
    except Exception as error:  # noqa: BLE001 - whatever a parser raises is a fault of it
        fault = f"raised {type(error).__name__}: {error}"
    return (
        fault
        and f"{kind} of seed {seed}: {fault[:800]}\n  {trial.input.content[:600]!r}\n  {trial.input.schema}, {trial.input.options}"
    )


def rows_tried(seed: int, count: int) -> list[str]:
    """What is wrong with what is read of so many rows of PostgreSQL."""
    outcomes = Results()
    with rows.tables(list(by_chance(random.Random(seed), count))) as (dsn, filled):
        rows.try_all(outcomes, "rows", rows.in_process(dsn), filled)
    return [f"row of seed {seed}: {cell.kind} {cell.name}: {what}" for cell, what in outcomes.differences.items()]


def share(kinds: Sequence[str], seeds: range, faults: Any, now: Any) -> None:
    """Try the seeds, and tell in `now` which is tried: a crash of this process is known by it."""
    for seed in seeds:
        for kind in kinds:
            now.value = seed
            fault = tried(kind, seed)
            if fault:
                faults.put(fault)
    faults.put(None)


def faults_of(child: Any, faults: Any, now: Any) -> Iterator[str]:
    """What a process tells until it ends; that it died, or has read one file for a minute, is a fault too."""
    seed, since = now.value, time.monotonic()
    while True:
        if not faults.empty():
            fault = faults.get()
            if fault is None:
                return
            yield fault
        elif not child.is_alive():
            yield f"died with {child.exitcode} at seed {now.value}"
            return
        elif now.value != seed:
            seed, since = now.value, time.monotonic()
            time.sleep(0.05)
        elif time.monotonic() - since > STALLED:
            child.kill()
            yield f"stalled at seed {seed}"
            return
        else:
            time.sleep(0.05)


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--files", type=int, default=1000)
    parser.add_argument("--rows", type=int, default=0, help="rows of PostgreSQL that are tried as well")
    parser.add_argument("--kinds", default=",".join(TRIALS))
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--most", type=int, default=20, help="faults that are shown")
    options = parser.parse_args(arguments)
    kinds = options.kinds.split(",")
    per_process = -(-options.files // len(kinds) // options.processes)
    context = multiprocessing.get_context("spawn")
    begun, counts = time.monotonic(), Counter[str]()
    children = []
    for number in range(options.processes):
        first = options.seed + number * per_process
        now, faults = context.Value("q", first), context.SimpleQueue()
        child = context.Process(target=share, args=(kinds, range(first, first + per_process), faults, now), daemon=True)
        child.start()
        children.append((child, faults, now))
    for child, faults, now in children:
        for fault in faults_of(child, faults, now):
            counts[fault.partition(" ")[0]] += 1
            if sum(counts.values()) <= options.most:
                print(fault, flush=True)
    for fault in rows_tried(options.seed, options.rows) if options.rows else ():
        counts["row"] += 1
        if counts["row"] <= options.most:
            print(fault[:1000], flush=True)
    files = per_process * options.processes * len(kinds)
    print(
        f"{files} files and {options.rows} rows from seed {options.seed} in {time.monotonic() - begun:.0f} s, faults: {dict(counts) or 'none'}"
    )
    return 1 if counts else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
