"""A case of the corpus: a file, what a reader is told of it, and what may come out. A cell is a case, tried by one way."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal, TypeAlias

from tests.corpus.canonical import Canonical, shown
from tests.corpus.forms import BAD, Allowed

Verdict: TypeAlias = Literal["equal", "documented", "refused", "different"]
Row: TypeAlias = tuple[Canonical, ...]
FILE: Final = "file"
"""The type of cells that are about a whole file."""


@dataclass(frozen=True, kw_only=True)
class Input:
    """What a way reads: the bytes, and how it is told to read them."""

    source: str
    """`csv`, `json`, `text`, `parquet`."""
    content: bytes
    file: str
    """The file's name."""
    schema: str | None
    """Spark's DDL. None: inferred."""
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Reading:
    """What a way made of an input."""

    rows: Sequence[Row] = ()
    bad: Sequence[tuple[str, int]] = ()
    """The bad records: each text, and the records that it stands for."""
    refused: str | None = None
    """The sentence with which the file was refused."""
    types: str | None = None
    """The inferred columns, where there was no schema."""

    counted: bool = True
    """Whether the way tells how many records a bad one stands for."""
    fails: bool = False
    """Whether the way keeps no bad records: one of them fails the read."""

    def has_bad(self, expected: int | Sequence[str]) -> bool:
        """Whether the bad records are these texts, or so many."""
        if not isinstance(expected, int):
            return [text for text, _ in self.bad] == list(expected)
        count = sum(count for _, count in self.bad)
        return count == expected if self.counted else bool(count) == bool(expected)


@dataclass(frozen=True, kw_only=True)
class Expected:
    """One way to read a file that the promise allows."""

    rows: Sequence[Row] = ()
    bad: int | Sequence[str] = 0
    """The number of bad records, or the text of each."""
    refused: str | None = None
    """A word that the sentence must have."""
    types: str | None = None
    documented: str | None = None
    """The conversion, where what is read is another value that says the same."""

    def verdict(self, reading: Reading) -> Verdict:
        if self.refused is not None:
            return "refused" if self.refused.lower() in (reading.refused or "").lower() else "different"
        if reading.fails and self.bad:
            return "refused" if reading.refused is not None else "different"
        same = list(map(tuple, reading.rows)) == list(map(tuple, self.rows)) and self.types in {None, reading.types}
        if reading.refused is not None or not same or not reading.has_bad(self.bad):
            return "different"
        return "refused" if self.bad else "documented" if self.documented else "equal"


@dataclass(frozen=True, kw_only=True)
class Case:
    """A file of which the whole is the subject."""

    name: str
    kind: str = FILE
    input: Input
    expected: Sequence[Expected]
    """What may be read. There are several where the promise leaves a choice."""

    @property
    def cells(self) -> Sequence[tuple[str, str]]:
        return [(self.kind, self.name)]

    def verdicts(self, reading: Reading) -> Iterable[tuple[str, str, Verdict, str]]:
        """Type, name, verdict, and what was read instead."""
        verdicts = [each.verdict(reading) for each in self.expected]
        verdict: Verdict = next((each for each in verdicts if each != "different"), "different")
        yield self.kind, self.name, verdict, shown_reading(reading)


@dataclass(frozen=True, kw_only=True)
class Group:
    """Many texts under one type: a record for each, numbered in the column `id`."""

    name: str
    kind: str
    input: Input
    expected: Sequence[tuple[str, Allowed]]
    """The text of record 0, 1, …, and what may be read from it."""
    tokens: Sequence[str]
    """The same texts as the file has them: in quotes, with escapes."""

    @property
    def cells(self) -> Sequence[tuple[str, str]]:
        return [(self.kind, f"{self.name} {text!r}") for text, _ in self.expected]

    def alone(self, at: int) -> Input:
        """A file with one record only: readers may have a quicker way for what is plain."""
        line = f"id,v\n{at},{self.tokens[at]}\n" if self.input.source == "csv" else f'{{"id": {at}, "v": {self.tokens[at]}}}\n'
        return replace(self.input, content=line.encode())

    def verdicts(self, reading: Reading) -> Iterable[tuple[str, str, Verdict, str]]:
        values: dict[str, list[Any]] = {}
        for number, *rest in reading.rows:
            values.setdefault(number, []).append(rest[0])
        for record, count in reading.bad:
            values.setdefault(_number_in(record), []).extend([BAD] * count)
        for at, (text, allowed) in enumerate(self.expected):
            read = values.pop(str(at), [])
            right = len(read) == 1 and read[0] in allowed
            verdict: Verdict = "different" if not right else "refused" if read[0] is BAD else "equal"
            outcome = (
                reading.refused or ", ".join("bad" if value is BAD else shown(value) for value in read) or "nothing"
            )
            yield self.kind, f"{self.name} {text!r}", verdict, outcome
        for number, more in values.items():
            yield self.kind, f"{self.name} record {number}", "different", f"a record that is not in the file: {more}"


def _number_in(record: str) -> str:
    """The number of a record, from its text: the first digits in it."""
    digits = "".join(character if character.isascii() and character.isdigit() else " " for character in record[:40])
    return next(iter(digits.split()), record)


def shown_reading(reading: Reading) -> str:
    if reading.refused is not None:
        return f"refused: {reading.refused}"
    types = f"{reading.types}: " if reading.types else ""
    return f"{types}{shown(reading.rows[:10])}" + (f", bad: {reading.bad[:5]}" if reading.bad else "")


Anything: TypeAlias = "Case | Group"


@dataclass(frozen=True, kw_only=True)
class Wide:
    """All groups of a source in one file: a column for each type, and a record for each text. One read tries them all."""

    input: Input
    cells: Sequence[tuple[Group, int]]
    """The group and number of record 0, 1, …"""

    @classmethod
    def of(cls, source: str, groups: Sequence[Group]) -> Wide:
        kinds = list(dict.fromkeys(group.kind for group in groups))
        cells = [(group, at) for group in groups for at in range(len(group.tokens))]
        lines = [",".join(["id", *(f"v{at}" for at in range(len(kinds)))])] if source == "csv" else []
        for number, (group, at) in enumerate(cells):
            column, token = kinds.index(group.kind), group.tokens[at]
            if source == "csv":
                lines.append(f"{number},{',' * column}{token}{',' * (len(kinds) - column - 1)}")
            else:
                lines.append(f'{{"id": {number}, "v{column}": {token}}}')
        schema = ", ".join(["id long", *(f"v{at} {kind}" for at, kind in enumerate(kinds))])
        content = "".join(f"{line}\n" for line in lines).encode()
        return cls(input=Input(source=source, content=content, file=f"wide.{source}", schema=schema), cells=cells)

    def verdicts(self, reading: Reading) -> Iterable[tuple[str, str, Verdict, str]]:
        kinds = list(dict.fromkeys(group.kind for group, _ in self.cells))
        rows: dict[int, list[Row]] = {}
        bad: dict[int, list[tuple[str, int]]] = {}
        for id_text, *values in reading.rows:
            group, at = self.cells[int(id_text)]
            rows.setdefault(id(group), []).append((str(at), values[kinds.index(group.kind)]))
        for record, count in reading.bad:
            number = _number_in(record)
            group, at = self.cells[int(number) if number.isdigit() else 0]
            bad.setdefault(id(group), []).append((str(at), count))
        for group in dict((id(group), group) for group, _ in self.cells).values():
            part = Reading(rows=rows.get(id(group), []), bad=bad.get(id(group), []), refused=reading.refused)
            yield from group.verdicts(part)
