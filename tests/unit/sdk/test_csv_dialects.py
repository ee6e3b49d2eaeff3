"""CSV in every dialect is read as a plain state machine reads it, character by character, in pieces of any size."""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from asset_job.sources.csv.parser import CsvParser
from asset_job.sources.options import ReadOptions
from asset_job.sources.records import BadRecord
from tests.unit.sdk.in_memory import InMemory

Row: TypeAlias = tuple[str | None, ...]


class Bad(NamedTuple):
    """A bad record: its text, the line at which it begins, and the records that it stands for."""

    text: str
    line: int
    count: int


class BrokenField(Exception):
    """A field that is none, and where it was seen."""

    def __init__(self, at: int, *, is_open: bool = False) -> None:
        super().__init__()
        self.at, self.is_open = at, is_open


class StateMachine:
    """Reads a text in which bytes that are no UTF-8 are surrogates."""

    def __init__(self, text: str, fields: int, line_end: str, options: dict[str, Any]) -> None:
        self.text, self.fields, self.line_end = text, fields, line_end
        self.separator, self.quote = options.get("sep", ","), options.get("quote", '"')
        self.escape, self.comment = options.get("escape"), options.get("comment")
        self.null, self.empty = options.get("nullValue", ""), options.get("emptyValue", "")
        self.left, self.right = options.get("ignoreLeadingWhiteSpace"), options.get("ignoreTrailingWhiteSpace")
        self.breaks = options.get("multiLine", True)
        self.own_end = "lineSep" in options
        self.rows: list[Row] = []
        self.bad: list[Bad] = []

    def read(self) -> tuple[list[Row], list[Bad]]:
        at = 0
        while at < len(self.text):
            if self.comment and self.text[at] == self.comment:
                at = self.behind_line(at)[1]
            elif self.text.startswith(self.line_end, at) and self.fields > 1:
                at += len(self.line_end)
            else:
                at = self.record(at)
        return self.rows, self.bad

    def behind_line(self, at: int) -> tuple[int, int]:
        """Where the next line ends, without and with its line end."""
        end = self.text.find(self.line_end, at)
        return (len(self.text), len(self.text)) if end < 0 else (end, end + len(self.line_end))

    def record(self, begin: int) -> int:
        values: list[str | None] = []
        at = begin
        while True:
            try:
                value, at = self.field(at)
            except BrokenField as broken:
                end, behind = (len(self.text),) * 2 if broken.is_open else self.behind_line(broken.at)
                record = self.text[begin:end].removesuffix(self.line_end) if broken.is_open else self.text[begin:end]
                self.refuse(begin, record, record.count(self.line_end) + 1 if broken.is_open else 1)
                return behind
            values.append(value)
            if not self.text.startswith(self.separator, at):
                break
            at += len(self.separator)
        record = self.text[begin:at]
        if len(values) != self.fields or any("\udc80" <= each <= "\udcff" for each in record):
            self.refuse(begin, record, 1)
        else:
            self.rows.append(tuple(values))
        return min(at + len(self.line_end), len(self.text))

    def refuse(self, begin: int, record: str, count: int) -> None:
        shown = "".join(f"\\x{ord(each) - 0xDC00:02x}" if "\udc80" <= each <= "\udcff" else each for each in record)
        self.bad.append(Bad(shown, self.text.count(self.line_end[-1], 0, begin), count))

    def ends(self, at: int) -> bool:
        return (
            at >= len(self.text) or self.text.startswith(self.separator, at) or self.text.startswith(self.line_end, at)
        )

    def spaces(self, at: int) -> int:
        while self.text.startswith(" ", at):
            at += 1
        return at

    def field(self, at: int) -> tuple[str | None, int]:
        begin = self.spaces(at) if self.left else at
        if self.quote and self.text.startswith(self.quote, begin):
            return self.quoted(begin)
        end = at
        while not self.ends(end):
            if self.text[end] == self.quote or (self.text[end] in "\r\n" and not self.own_end):
                raise BrokenField(end)
            end += 1
        value = self.text[begin : max(begin, end)]
        value = value.rstrip(" ") if self.right else value
        return (None if value in {"", self.null} else value), end

    def quoted(self, begin: int) -> tuple[str, int]:
        value, at = "", begin + 1
        while True:
            if at >= len(self.text) or (self.text[at] in "\r\n" and not self.breaks):
                raise BrokenField(begin, is_open=self.breaks)
            each, following = self.text[at], self.text[at + 1 : at + 2]
            if each == self.escape and each != self.quote:
                if not following or (following in "\r\n" and not self.breaks):
                    raise BrokenField(begin, is_open=self.breaks)
                value += following if following in {self.quote, self.escape} else each + following
                at += 2
            elif each != self.quote:
                value, at = value + each, at + 1
            elif following == self.quote:
                value, at = value + each, at + 2
            else:
                break
        end = self.spaces(at + 1) if self.right else at + 1
        if not self.ends(end):
            raise BrokenField(end)
        return value or self.empty, end


DIALECTS = st.fixed_dictionaries(
    {},
    optional={
        "sep": st.sampled_from([";", "\t", "||", "§"]),
        "quote": st.sampled_from(["'", ""]),
        "escape": st.sampled_from(["\\", "!", '"']),
        "comment": st.just("#"),
        "nullValue": st.sampled_from(["a", "\\N"]),
        "emptyValue": st.just("-"),
        "ignoreLeadingWhiteSpace": st.booleans(),
        "ignoreTrailingWhiteSpace": st.booleans(),
        "multiLine": st.booleans(),
    },
)
LINE_ENDS = st.sampled_from(["\n", "\r\n", "\r"])


def check(parts: list[str], line_end: str, fields: int, options: dict[str, Any], longest: int, *, broken: bool) -> None:
    """Compare the parser with the state machine. `E`, `S` and `Q` stand for line end, separator and quote."""
    separator, quote = options.get("sep", ","), options.get("quote", '"')
    header = separator.join("abc"[:fields]) + line_end
    body = "".join({"E": line_end, "S": separator, "Q": quote}.get(part, part) for part in parts)
    if line_end == "\r" and body.startswith("\n"):
        return  # the first line ends with CR LF
    content = (header + body).encode() + (b"\xff" if broken else b"")
    text = content.decode("utf-8", "surrogateescape").removeprefix(header)
    rows, bad = StateMachine(text, fields, line_end, options).read()
    columns = pa.schema([(name, pa.string()) for name in "abc"[:fields]])
    got: list[Row] = []
    refused: list[Bad] = []
    for parsed in CsvParser(columns=columns, options=ReadOptions.of("csv", options)).parse(
        InMemory(content, len(content), longest, name="a.csv")
    ):
        if isinstance(parsed, BadRecord):
            refused.append(Bad(parsed.record, int(parsed.at.removeprefix("line ")) - 2, parsed.count))
        else:
            parsed.validate(full=True)
            got += [tuple(row.values()) for row in parsed.to_pylist()]
    assert (got, sorted(refused)) == (rows, sorted(bad)), content


PARTS = st.sampled_from(
    [*"EESSSQQQQ", "a", "b", " ", "\\", "!", "#", "é", "§", "\ufeff", "-", "\\N", "|", "\n", "\r", "\x00", "\t"]
)


@given(
    parts=st.lists(PARTS, max_size=40),
    line_end=LINE_ENDS,
    fields=st.sampled_from([2, 1, 3]),
    options=st.one_of(st.just({}), DIALECTS),
    longest=st.sampled_from([1, 3, 100]),
    broken=st.booleans(),
)
@settings(max_examples=400, deadline=None)
def test_every_dialect_is_read_as_the_state_machine_reads_it(
    parts: list[str], line_end: str, fields: int, options: dict[str, Any], longest: int, *, broken: bool
) -> None:
    check(parts, line_end, fields, options, longest, broken=broken)
