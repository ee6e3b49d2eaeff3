"""CSV is read as RFC 4180 says, in pieces of any size; what is no record is a bad record, whole and named."""

from __future__ import annotations

import random
import re
from decimal import Decimal
from typing import Any, TypeAlias

import pyarrow as pa
import pytest

from asset_job.errors import AssetJobError, FileInvalid, SourceInvalid
from asset_job.sources.csv.inference import CsvInference
from asset_job.sources.csv.parser import CsvParser
from asset_job.sources.options import ReadOptions
from asset_job.sources.records import BadRecord
from tests.unit.sdk.in_memory import InMemory

Rows: TypeAlias = list[Any]
NOTES = pa.schema([("id", pa.int64()), ("note", pa.string())])


def read(
    body: bytes, columns: pa.Schema = NOTES, *, seed: int = 0, longest: int = 5, **options: Any
) -> tuple[Rows, list[BadRecord]]:
    """The good rows and the bad records of a file that comes in random pieces."""
    rows: Rows = []
    bad: list[BadRecord] = []
    parser = CsvParser(columns=columns, options=ReadOptions.of("csv", options))
    for parsed in parser.parse(InMemory(body, seed, longest, name="a.csv")):
        if isinstance(parsed, BadRecord):
            bad.append(parsed)
        else:
            rows += [tuple(row.values()) for row in parsed.to_pylist()]
    return rows, bad


def inferred(*bodies: bytes, **options: Any) -> str:
    inference = CsvInference(options=ReadOptions.of("csv", options))
    return inference.schema([inference.inferred(InMemory(body, name=f"{at}.csv")) for at, body in enumerate(bodies)])


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(
    ("body", "rows"),
    [
        (b'id,note\n1,"first\nsecond"\n2,x\n', [(1, "first\nsecond"), (2, "x")]),
        (b'id,note\n1,"a ""q"" b"\n', [(1, 'a "q" b')]),
        (b'id,note\n1,"a ""q"", b"\n', [(1, 'a "q", b')]),
        (b'id,note\n1,"C:\\dir\\"\n', [(1, "C:\\dir\\")]),
        (b'id,note\n1,"{""a"": ""x\\""y""}"\n', [(1, '{"a": "x\\"y"}')]),
        (b'id,note\n1,""\n2,\n', [(1, ""), (2, None)]),
        (b"id,note\r\n1,a\r\n\r\n2,b", [(1, "a"), (2, "b")]),
        (b'id,note\r\n1,"a\nb\r\nc"\r\n', [(1, "a\nb\r\nc")]),
        (b"id,note\r1,a\r2,b\r", [(1, "a"), (2, "b")]),
        (b"\xef\xbb\xbfID,Note\n1,a\n", [(1, "a")]),
        ("id,note\n1,ü\n".encode("utf-16"), [(1, "ü")]),
        ("\n\nid , note\n1,\ufeffa\n2,\u2028b\n".encode(), [(1, "\ufeffa"), (2, "\u2028b")]),
        (b"id,note\n1,a\n" + "\ufeff".encode() * 0, [(1, "a")]),
        (b"id,note", []),
        (b"", []),
        (b'"id","note"\n 1 , a \n', [(1, " a ")]),
    ],
)
def test_good_records(body: bytes, rows: Rows, seed: int) -> None:
    assert read(body, seed=seed) == (rows, [])


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(
    ("body", "rows", "bad"),
    [
        (b'1,"abc\n2,x\n', [], [('1,"abc\n2,x', "line 2", "the quote that opens at line 2 is not closed", 2)]),
        (
            b'0,a\n1,"x\ny","\n2,x',
            [(0, "a")],
            [('1,"x\ny","\n2,x', "line 3", "the quote that opens at line 4 is not closed", 3)],
        ),
        (
            b"1,a,b\n2,x\n3\n",
            [(2, "x")],
            [
                ("1,a,b", "line 2", "it has 3 fields, and 2 are expected", 1),
                ("3", "line 4", "it has 1 field, and 2 are expected", 1),
            ],
        ),
        (
            b"1,Z\xfcrich\n2,x\n",
            [(2, "x")],
            [("1,Z\\xfcrich", "line 2", "it holds bytes that are no text in its encoding", 1)],
        ),
        (
            b'1,a"b\n2,"c"d\n3,x\n',
            [(3, "x")],
            [
                ('1,a"b', "line 2", "a quote stands in a value without quotes, or is not closed in its line", 1),
                ('2,"c"d', "line 3", "text stands behind a closing quote", 1),
            ],
        ),
        (b"1,a\r\n2,x\n", [(2, "x")], [("1,a\r", "line 2", "it has another line end than the file's first line", 1)]),
        (
            b'1.5,"a\nb"\n2,x\n',
            [(2, "x")],
            [('1.5,"a\nb"', "line 2", "the column id has the type bigint, and '1.5' is no whole number", 1)],
        ),
        (
            b'"",x\n,y\n',
            [(None, "y")],
            [('"",x', "line 2", "the column id has the type bigint, and '' is no whole number", 1)],
        ),
    ],
)
def test_bad_records_are_whole_and_named(
    body: bytes, rows: Rows, bad: list[tuple[str, str, str, int]], seed: int
) -> None:
    got, refused = read(b"id,note\n" + body, seed=seed)
    assert got == rows
    assert [(record.record, record.at, record.reason, record.count) for record in refused] == bad


def test_the_format_that_was_given_stands_in_the_reason() -> None:
    columns = pa.schema([("day", pa.date32()), ("at", pa.timestamp("us", "UTC"))])
    body = b"day,at\n20/11/2026,\n2026-11-20,\n,20.11.2026\n"
    rows, bad = read(body, columns, dateFormat="dd/MM/yyyy", timestampFormat="dd/MM/yyyy HH:mm")
    assert len(rows) == 1
    assert [record.reason for record in bad] == [
        "the column day has the type date, and '2026-11-20' is no date as dd/MM/yyyy (dateFormat)",
        "the column at has the type timestamp, and '20.11.2026' is no date and time as dd/MM/yyyy HH:mm (timestampFormat)",
    ]


def test_an_open_quote_is_counted_by_the_lines_of_its_file() -> None:
    _, [bad] = read(b'id,note\r\n1,"a\nb\r\nc\r\n', seed=0)
    assert (bad.record, bad.count) == ('1,"a\nb\r\nc', 2)


@pytest.mark.parametrize(
    ("options", "body", "rows"),
    [
        ({"sep": ";"}, b"id;note\n1;a,b\n", [(1, "a,b")]),
        ({"sep": "\\t"}, b"id\tnote\n1\ta\n", [(1, "a")]),
        ({"sep": "||"}, b'id||note\n1||"a||b"\n2||x|y\n', [(1, "a||b"), (2, "x|y")]),
        ({"sep": "§"}, "id§note\n1§a\n".encode(), [(1, "a")]),
        ({"quote": "'"}, b"id,note\n1,'a''\n,b'\n", [(1, "a'\n,b")]),
        ({"quote": ""}, b'id,note\n1,"a\n', [(1, '"a')]),
        ({"escape": "\\"}, b'id,note\n1,"a \\"q\\" \\\\ \\n"\n2,a\\b\n', [(1, 'a "q" \\ \\n'), (2, "a\\b")]),
        ({"header": False}, b"1,a\n2,b\n", [(1, "a"), (2, "b")]),
        ({"comment": "#"}, b'#x,y,"\nid,note\n1,a\n#2,b\n3,c\n#', [(1, "a"), (3, "c")]),
        ({"nullValue": "NA"}, b'id,note\nNA,"NA"\n1,NA\n2,\n', [(None, "NA"), (1, None), (2, None)]),
        ({"emptyValue": "-"}, b'id,note\n1,""\n2,\n', [(1, "-"), (2, None)]),
        (
            {"ignoreLeadingWhiteSpace": True, "ignoreTrailingWhiteSpace": True},
            b'id,note\n1,  a \n2, " b " \n',
            [(1, "a"), (2, " b ")],
        ),
        ({"lineSep": ";"}, b"id,note;1,a\nb;2,c", [(1, "a\nb"), (2, "c")]),
        ({"lineSep": "\r\n"}, b'id,note\r\n1,a\r\n2,"b\n"', [(1, "a"), (2, "b\n")]),
        ({"encoding": "ISO-8859-1"}, b"id,note\n1,Z\xfcrich\n", [(1, "Zürich")]),
        ({"multiLine": False}, b'id,note\n1,"a,b"\n2,x\n', [(1, "a,b"), (2, "x")]),
    ],
)
def test_options_change_the_dialect(options: dict[str, Any], body: bytes, rows: Rows) -> None:
    for seed in range(5):
        assert read(body, seed=seed, **options) == (rows, [])


def test_without_multi_line_a_quote_that_is_open_at_the_end_of_a_line_is_bad() -> None:
    rows, bad = read(b'id,note\n1,"first\nsecond"\n2,x\n', multiLine=False)
    assert rows == [(2, "x")]
    assert [record.record for record in bad] == ['1,"first', 'second"']


@pytest.mark.parametrize("option", ["quote", "escape", "comment"])
@pytest.mark.parametrize("text", ["ab", "«"])
def test_a_character_that_cannot_be_used_is_refused_by_name(option: str, text: str) -> None:
    with pytest.raises(AssetJobError, match=f"the option {option} is one character of ASCII, not '{text}'"):
        ReadOptions.of("csv", {option: text})


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"comment": '"'}, "the option comment has '\"', which is also quote"),
        ({"comment": ","}, "the option comment has ',', which is also sep"),
        ({"sep": '"'}, "the option quote has '\"', which is also sep"),
        ({"sep": "|\n"}, r"the option sep has '\\n', which is also a line end"),
        ({"escape": "#", "comment": "#"}, "the option comment has '#', which is also escape"),
    ],
)
def test_a_character_with_two_meanings_is_refused(options: dict[str, str], reason: str) -> None:
    with pytest.raises(AssetJobError, match=reason):
        ReadOptions.of("csv", options)
    assert ReadOptions.of("csv", {"escape": '"', "sep": "||"})


def test_a_line_end_other_than_the_named_one_is_bad() -> None:
    rows, bad = read(b"id,note\n1,a\r\n2,x\n", lineSep="\n")
    assert (rows, [record.record for record in bad]) == ([(2, "x")], ["1,a\r"])


def test_without_a_header_a_bad_first_record_is_one_bad_record() -> None:
    rows, bad = read(b'1,"a"b\n2,x\n', header=False)
    assert rows == [(2, "x")]
    assert [(record.record, record.at) for record in bad] == [('1,"a"b', "line 1")]


def test_a_blank_line_is_a_null_in_a_file_of_one_column() -> None:
    one = pa.schema([("v", pa.string())])
    assert read(b'v\na\n\n""\n\n', one) == ([("a",), (None,), ("",), (None,)], [])
    assert read(b"\n\n", one, header=False) == ([(None,), (None,)], [])


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        (b"id,other\n1,a\n", "a.csv has the columns id, other where id, note are expected"),
        (b"id\n1\n", "a.csv has the columns id where id, note are expected"),
        (b'id,"note"x\n', "the first line of a.csv is no record: text stands behind a closing quote"),
        (b"id\xff,note\n1,a\n", "the first line of a.csv holds bytes that are no text: name its encoding"),
        (b'"id,note\n1,a\n', "the first line of a.csv is no record: the quote that opens at line 1 is not closed"),
    ],
)
def test_a_wrong_header_is_the_fault_of_the_file(body: bytes, sentence: str) -> None:
    with pytest.raises(FileInvalid) as refused:
        read(body)
    assert sentence in str(refused.value)


def test_a_record_that_is_too_long_fails_the_read_and_is_not_resynchronised() -> None:
    body = b'id,note\n1,"' + b"x\n" * (9 << 20)
    with pytest.raises(FileInvalid, match=r"a\.csv has a record of more than 16 MB at line 2: close its quotes"):
        read(body, longest=8 << 20)


def test_csv_has_no_values_of_nested_types() -> None:
    with pytest.raises(SourceInvalid, match="the column v has the type list"):
        CsvParser(columns=pa.schema([("v", pa.list_(pa.int64()))]), options=ReadOptions())


@pytest.mark.parametrize(
    ("bodies", "schema"),
    [
        ([b"zip\n01234\n"], "`zip` string"),
        ([b"a,b,c\n1,1.5,x\n,,\n"], "`a` bigint, `b` double, `c` string"),
        ([b"a\n9223372036854775807\n"], "`a` bigint"),
        ([b"a\n9223372036854775808\n"], "`a` decimal(19,0)"),
        ([b"a\n12345678901234567\n", b"a\n0.5\n"], "`a` decimal(18,1)"),
        ([b"a\n1234567890123456.5\n"], "`a` decimal(17,1)"),
        ([b"a\n1e400\n"], "`a` string"),
        ([b"a\n1e5\n2\n"], "`a` double"),
        ([b"a\n1e5\n12345678901234567\n"], "`a` string"),
        ([b"a\n" + b"9" * 39 + b"\n"], "`a` string"),
        ([b"a\n+1\n"], "`a` string"),
        ([b"a\ntrue\nFALSE\n"], "`a` boolean"),
        ([b"a\n2024-01-01\n"], "`a` date"),
        ([b"a\n2024-01-01 10:00:00\n2024-01-01T10:00:00Z\n"], "`a` timestamp"),
        ([b"a\n2024-01-01\n2024-01-01 10:00:00\n"], "`a` string"),
        ([b"a\n2024-02-30\n"], "`a` string"),
        ([b'a,b\n"",\n'], "`a` string, `b` string"),
        ([b"a,b\n1,2\n", b"A,B\nx,\n", b""], "`a` string, `b` bigint"),
        ([b"`x.y`,\n1,2\n"], "```x.y``` bigint, `_c1` bigint"),
    ],
)
def test_the_inferred_type_reads_all_texts(bodies: list[bytes], schema: str) -> None:
    assert inferred(*bodies) == schema


def test_columns_that_cannot_be_inferred_are_named() -> None:
    assert inferred(b"1,a\n", header=False) == "`_c0` bigint, `_c1` string"
    with pytest.raises(FileInvalid, match=r"0\.csv has the column 'a' more than once"):
        inferred(b"A,a\n")
    with pytest.raises(
        FileInvalid, match=r"0\.csv has the single column 'a;b': write the file with commas, or name its separator"
    ):
        inferred(b"a;b\n1;2\n")
    with pytest.raises(FileInvalid, match=r"1\.csv has the columns a, c, and 0\.csv has a, b"):
        inferred(b"a,b\n", b"a,c\n")
    with pytest.raises(SourceInvalid, match="none of the files has a line"):
        inferred(b"")


def expected_by_rfc_4180(  # noqa: C901 - one state machine
    body: bytes, line_end: bytes, fields: int
) -> tuple[list[list[str | None]], int]:
    """The good records, and the number of bad ones, byte by byte. `fields` is more than one."""
    good: list[list[str | None]] = []
    bad, at = 0, 0
    while at < len(body):
        values: list[str | None] = []
        value, state, start = b"", "start", at
        while True:
            byte = body[at : at + 1]
            end = body.startswith(line_end, at) or not byte
            if state == "quoted":
                if not byte:
                    return good, bad + body[start:].removesuffix(line_end).count(line_end) + 1
                state, value = ("closed", value) if byte == b'"' else (state, value + byte)
                at += 1
            elif state == "closed" and byte == b'"':
                state, value, at = "quoted", value + byte, at + 1
            elif end or byte == b",":
                values.append(None if state == "start" else value.decode())
                at += len(line_end) if end else 1
                if end:
                    if at > start + len(line_end) or body[start:at].strip(b"\r\n"):
                        good, bad = ([*good, values], bad) if len(values) == fields else (good, bad + 1)
                    break
                value, state = b"", "start"
            elif state == "start" and byte == b'"':
                state, at = "quoted", at + 1
            elif state == "closed" or byte in b'"\r\n':
                after = body.find(line_end, at)
                at, bad = len(body) if after < 0 else after + len(line_end), bad + 1
                break
            else:
                state, value, at = "bare", value + byte, at + 1
    return good, bad


def test_random_files_are_read_as_a_state_machine_reads_them() -> None:
    draw = random.Random(4180)
    columns = pa.schema([("a", pa.string()), ("b", pa.string())])
    for number in range(3000):
        line_end = draw.choice([b"\n", b"\r\n", b"\r"])
        parts = [b",", b'"', b'"', b'""', b"a", "é".encode(), b"\\", line_end, line_end, b",", b"\n", b"\r", b" "]
        weights = [6, 3, 3, 2, 6, 2, 1, 5, 5, 6, 0.3, 0.3, 1]
        body = b"".join(draw.choices(parts, weights, k=draw.randint(0, 30)))
        if line_end == b"\r":
            body = body.lstrip(b"\n")  # the first line would end with CR LF
        whole = b"a,b" + line_end + body
        rows, bad = read(whole, columns, seed=number, longest=draw.choice([1, 3, 50]))
        expected = expected_by_rfc_4180(body, line_end, 2)
        assert ([list(row) for row in rows], sum(record.count for record in bad)) == expected, (whole, line_end)


def test_random_values_come_back() -> None:
    draw = random.Random(4)
    columns = pa.schema([("n", pa.decimal128(20, 3)), ("t", pa.string())])
    for number in range(300):
        rows = [
            (
                Decimal(draw.randint(-(10**9), 10**9)).scaleb(-draw.randint(0, 3)),
                draw.choice([None, "", "a", '"', 'x"y', "\n", "\r\n", ",", " ", "é", "\\"]),
            )
            for _ in range(draw.randint(0, 50))
        ]
        quoted = (
            ""
            if text is None
            else '"' + text.replace('"', '""') + '"'
            if draw.random() < 0.5 or re.search('[",\r\n]', text) or not text
            else text
            for _, text in rows
        )
        body = "n,t\n" + "".join(f"{value},{text}\n" for (value, _), text in zip(rows, quoted, strict=True))
        assert read(body.encode(), columns, seed=number, longest=100) == (rows, [])


def test_a_field_with_nothing_in_it_is_bad_where_the_column_is_not_null() -> None:
    columns = pa.schema([pa.field("a", pa.int64(), nullable=False), pa.field("b", pa.string())])
    parsed = CsvParser(columns=columns, options=ReadOptions()).parse(InMemory(b"a,b\n1,\n,x\n", longest=100))
    rows, bad = [each for each in parsed if not isinstance(each, pa.RecordBatch) or len(each)]
    assert isinstance(rows, pa.RecordBatch)
    assert rows.to_pylist() == [{"a": 1, "b": None}]
    assert bad == BadRecord(record=",x", at="line 3", reason="the column a is NOT NULL, and has no value")
