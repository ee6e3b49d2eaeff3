"""Files of JSON: which values are rows, which are bad records, and what stands in the columns."""

from __future__ import annotations

import codecs
import pickle
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from asset_job.errors import FileInvalid, SourceInvalid
from asset_job.sources.json import columns as json_columns
from asset_job.sources.json.inference import JsonInference
from asset_job.sources.json.parser import JsonParser
from asset_job.sources.json.plain import PlainLines
from asset_job.sources.options import ReadOptions
from asset_job.sources.records import LONGEST_BAD, LONGEST_RECORD, BadRecord
from tests.unit.sdk.in_memory import InMemory
from tests.unit.sdk.json_by_hand import read

COLUMNS = pa.schema([("id", pa.int64()), ("v", pa.string())])
OPTIONS = ReadOptions()


def rows(*pairs: Any) -> list[dict[str, Any]]:
    return [{"id": pair[0], "v": pair[1]} if isinstance(pair, tuple) else {"id": pair, "v": None} for pair in pairs]


def outcome(body: bytes, **options: str) -> Any:
    """What is read, which must not depend on the sizes of the pieces."""
    whole = read(body, COLUMNS, largest=1 << 20, **options)
    for largest in (1, 2, 7, 60):
        assert read(body, COLUMNS, largest=largest, **options) == whole
    return whole


GOOD = {
    "lines": (b'{"id": 1, "v": "a"}\n{"id": 2}\n', rows((1, "a"), 2)),
    "lines without a last end": (b'{"id": 1}\r\n{"id": 2}', rows(1, 2)),
    "lines that end with CR": (b'{"id": 1}\r{"id": 2}\r', rows(1, 2)),
    "array of lines": (b'[\n{"id": 1, "v": "a"},\n{"id": 2, "v": "b"}\n]\n', rows((1, "a"), (2, "b"))),
    "pretty array": (b'[\n {"id": 1,\n  "v": "x"},\n {"id": 2, "v": "y"}\n]\n', rows((1, "x"), (2, "y"))),
    "pretty objects": (b'{\n  "id": 1\n}\n{\n  "id": 2\n}\n', rows(1, 2)),
    "two in a line": (b'{"id": 1, "v": "a"}{"id": 2, "v": "b"}\n', rows((1, "a"), (2, "b"))),
    "array in a line": (b'{"id": 1}\n[{"id": 2}, {"id": 3}]\n[]\n{"id": 4}\n', rows(1, 2, 3, 4)),
    "object over lines among lines": (b'{"id": 1}\n{"id":\n2}\n{"id": 3}\n', rows(1, 2, 3)),
    "blank lines": (b'\n\n{"id": 1}\n \t\n\n{"id": 2}\n\n', rows(1, 2)),
    "white space of all kinds": (b' \t\r\n{ \t\r\n"id" \t:\r\n1 \t, "v"\n:\r"a"\t} \r\n', rows((1, "a"))),
    "empty file": (b"", []),
    "white space alone": (b" \t\r\n\n", []),
    "empty array": (b"[]", []),
    "empty array with white space": (b"[ \n ]\n", []),
    "empty object": (b"{}", rows(None)),
    "mark": (codecs.BOM_UTF8 + b'{"id": 1}\n', rows(1)),
    "UTF-16 with a mark": ('{"id": 1, "v": "é😀"}\n{"id": 2}'.encode("utf-16"), rows((1, "é😀"), 2)),
    "UTF-32 with a mark": ('[{"id": 1, "v": "é"}]'.encode("utf-32"), rows((1, "é"))),
    "escapes": (rb'{"i\u0064": 1, "v": "\u00e9\ud83d\ude00\n\"\\\/"}', rows((1, 'é😀\n"\\/'))),
    "NUL as an escape": (rb'{"v": "a\u0000b"}', rows((None, "a\0b"))),
    "numbers under string": (
        b'{"v":12345678901234567890}\n{"v":1.10}\n{"v":1e400}\n{"v":-0}\n{"v":1E+05}\n{"v":true}\n{"v":false}\n{"v":null}',
        rows(*((None, v) for v in ("12345678901234567890", "1.10", "1e400", "-0", "1E+05", "true", "false", None))),
    ),
    "nested under string": (
        b'{"x": 1, "v": {"a": [1.10,  "\\u00e9"] }}\n{"v":[ {} , 1]}\n{"v":[]}',
        rows((None, '{"a": [1.10,  "\\u00e9"] }'), (None, "[ {} , 1]"), (None, "[]")),
    ),
    "names in another case": (b'{"ID": 1, "V": "a"}\n{"id": 2, "ID": 3}\n{"Id": 4}\n', rows((1, "a"), 2, 4)),
    "names of others twice": (b'{"x": 1, "x": 2, "id": 1}', rows(1)),
    "texts of numbers": (b'{"id": "007"}\n{"id": " 8 "}\n{"id": "+9"}', rows(7, 8, 9)),
    "deep": (b'{"x": ' + b"[" * 499 + b"]" * 499 + b', "id": 1}', rows(1)),
}


@pytest.mark.parametrize("name", GOOD)
def test_values_are_rows(name: str) -> None:
    body, expected = GOOD[name]
    assert outcome(body) == (expected, [])


BAD = {
    "a broken line": (b'{"id": 1}\n{"id": x}\n{"id": 3}\n', rows(1, 3), [('{"id": x}', 2, 1)]),
    "nothing of a broken line": (b'{"id": 1}\n{"id": 2}{"id"\n{"id": 3}', rows(1, 3), [('{"id": 2}{"id"', 2, 1)]),
    "nothing of a broken array": (b'{"id": 1}\n[{"id": 2},\n{"id": 3}', rows(1, 3), [('[{"id": 2},', 2, 1)]),
    "a broken first line": (b'{"id": x}\n{"id": 2}\n{"id": 3}\n', [], [('{"id": x}\n{"id": 2}\n{"id": 3}', 1, 3)]),
    "garbage behind the first value": (b'{"id": 1} x\n{"id": 2}', rows(2), [('{"id": 1} x', 1, 1)]),
    "commas between lines": (
        b'{"id": 1},\n{"id": 2},\n{"id": 3}',
        rows(3),
        [('{"id": 1},', 1, 1), ('{"id": 2},', 2, 1)],
    ),
    "garbage at the end": (b'{"id": 1}\n{"id": 2}\nEOF\n', rows(1, 2), [("EOF", 3, 1)]),
    "a line that was cut": (b'{"id": 1}\n{"id": 2, "v": "a', rows(1), [('{"id": 2, "v": "a', 2, 1)]),
    "an array that was cut": (b'[{"id": 1},\n{"id": 2},\n{"id"', rows(1, 2), [('{"id"', 3, 1)]),
    "an array without its end": (b'[{"id": 1},\n{"id": 2}', rows(1, 2), [("", 2, 1)]),
    "a broken pretty object": (b'{\n"id": 1\n}\n{\n"id" 2\n}\n', rows(1), [('{\n"id" 2\n}', 4, 3)]),
    "a broken pretty array": (b'[\n{"id": 1},\n{"id" 2},\r\n{}]\r\n', rows(1), [('{"id" 2},\r\n{}]', 3, 2)]),
    "garbage behind an array over lines": (b'[\n{"id": 1}]\n]\n', rows(1), [("]", 3, 1)]),
    "no objects": (
        b'5\n"a"\nnull\ntrue\n[1,[{"id": 1}]]\n{"id": 2}',
        rows(2),
        [("5", 1, 1), ('"a"', 2, 1), ("null", 3, 1), ("true", 4, 1), ("1", 5, 1), ('[{"id": 1}]', 5, 1)],
    ),
    "null between objects": (b'{"id": 1}\n{"id": 2} null\n', rows(1, 2), [("null", 2, 1)]),
    "no constants": (
        b'{}\n{"v": NaN}\n{"x": Infinity}\n',
        rows(None),
        [('{"v": NaN}', 2, 1), ('{"x": Infinity}', 3, 1)],
    ),
    "no JSON": (
        b'{}\n{\'id\': 1}\n{"id": 01}\n{"v": "a\tb"}\n{"id": 1,}\n{"id": +1}\n{"id": .5}\n{"id": 1} // x\n\x0b{}\n',
        rows(None),
        [
            *[("{'id': 1}", 2, 1), ('{"id": 01}', 3, 1), ('{"v": "a\tb"}', 4, 1), ('{"id": 1,}', 5, 1)],
            *[('{"id": +1}', 6, 1), ('{"id": .5}', 7, 1), ('{"id": 1} // x', 8, 1), ("\x0b{}", 9, 1)],
        ],
    ),
    "a name twice": (b'{}\n{"id": 1, "id": 1}\n{"id": 2}', rows(None, 2), [('{"id": 1, "id": 1}', 2, 1)]),
    "a name in two other cases": (b'{}\n{"ID": 1, "Id": 1}\n{"id": 2}', rows(None, 2), [('{"ID": 1, "Id": 1}', 2, 1)]),
    "half a pair": (
        b'{}\n{"v": "\\ud800"}\n{"x": "\\udc00"}\n{"x": {"a": "\\udc00\\ud800", "a": 1}}\n{"v": "\\\\ud800"}',
        rows(None, (None, "\\ud800")),
        [('{"v": "\\ud800"}', 2, 1), ('{"x": "\\udc00"}', 3, 1), ('{"x": {"a": "\\udc00\\ud800", "a": 1}}', 4, 1)],
    ),
    "bytes that are no text": (
        b'{"id": 1}\n{"v": "\xff"}\n{"x": "\xed\xa0\x80"}\n{"id": 2}',
        rows(1, 2),
        [('{"v": "\\xff"}', 2, 1), ('{"x": "\\xed\\xa0\\x80"}', 3, 1)],
    ),
    "NUL": (b'{"id": 1}\n{"id": 2}\0\n{"id": 3}', rows(1, 3), [('{"id": 2}\0', 2, 1)]),
    "a mark between": (b'{"id": 1}\n\xef\xbb\xbf{"id": 2}\n', rows(1), [('\ufeff{"id": 2}', 2, 1)]),
    "numbers that do not fit": (
        b'{}\n{"id": 1.0}\n{"id": 1e2}\n{"id": 9223372036854775808}\n{"id": true}\n{"id": ""}\n{"id": {}}\n{"id": -0}',
        rows(None, 0),
        [
            *[('{"id": 1.0}', 2, 1), ('{"id": 1e2}', 3, 1), ('{"id": 9223372036854775808}', 4, 1)],
            *[('{"id": true}', 5, 1), ('{"id": ""}', 6, 1), ('{"id": {}}', 7, 1)],
        ],
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_what_breaks_or_does_not_fit_is_one_bad_record(name: str) -> None:
    body, good, bad = BAD[name]
    actual = outcome(body)
    assert (actual[0], sorted(actual[1], key=lambda each: each[1])) == (good, bad)


@pytest.mark.parametrize("depth", [501, 2_000, 200_000])
def test_what_is_nested_too_deep_is_a_bad_record(depth: int) -> None:
    deep = b'{"x": ' + b"[" * (depth - 1) + b"]" * (depth - 1) + b"}"
    good, bad = read(b'{"id": 1}\n' + deep + b'\n{"id": 2}\n', COLUMNS, largest=1 << 20)
    assert (good, bad) == (rows(1, 2), [(deep.decode(), 2, 1)])
    assert read(b"[" * depth, COLUMNS, largest=1 << 20)[1][0][1:] == (1, 1)


def test_encodings_by_name() -> None:
    assert outcome('{"v": "Zürich"}'.encode("latin-1"), encoding="ISO-8859-1") == (rows((None, "Zürich")), [])
    assert outcome('{"id": 1}\n'.encode("utf-16-le"), encoding="UTF-16LE") == (rows(1), [])
    lone = '{"id": 1}\n{"v": "'.encode("utf-16-le") + b"\x00\xd8" + '"}\n{"id": 3}'.encode("utf-16-le")
    good, bad = outcome(codecs.BOM_UTF16_LE + lone)
    assert (good, [each[1:] for each in bad]) == (rows(1, 3), [(2, 1)])


def test_lines_end_only_as_white_space() -> None:
    assert outcome(b'{"id": 1}\n', lineSep="\n") == (rows(1), [])
    with pytest.raises(SourceInvalid, match="remove the option lineSep"):
        read(b'{"id": 1}|{"id": 2}', COLUMNS, lineSep="|")


TYPED = {
    "double": (pa.float64(), {"-0": "-0.0", "1e2": "100.0", '"NaN"': "nan", "0.1": "0.1"}, ["1e400", "1e-400", '"1d"']),
    "decimal": (
        pa.decimal128(10, 2),
        {"1.5": "Decimal('1.50')", "1e2": "Decimal('100.00')", '"12345678.99"': "Decimal('12345678.99')"},
        ["1.005", "1234567890", "1e9", "1e-77", "1e-99999999", '"\\u0031e-77"', "0." + "0" * 80 + "1", "[]"],
    ),
    "boolean": (pa.bool_(), {"true": "True", '"F"': "False"}, ["1", '"yes"']),
    "binary": (pa.binary(), {'"aGk="': "b'hi'", '""': "b''"}, ["1234", '"a"', "true", '"a=G="']),
    "date": (pa.date32(), {'"2024-02-29"': "datetime.date(2024, 2, 29)"}, ["2024", '"2023-02-29"', '"10:30"']),
    "timestamp": (
        pa.timestamp("us"),
        {'"2024-01-01 10:30:00.5"': "datetime.datetime(2024, 1, 1, 10, 30, 0, 500000)"},
        ["1700000000", '"10:30"', '"2024-01-01"'],
    ),
    "map": (
        pa.map_(pa.string(), pa.int64()),
        {'{"a":1,"b":null}': "[('a', 1), ('b', None)]", "{}": "[]"},
        ['{"a":1,"a":1}'],
    ),
    "list": (pa.list_(pa.int64()), {"[1,null]": "[1, None]", "[]": "[]"}, ["{}", "1", "[1.5]"]),
    "empty struct": (pa.struct([]), {'{"a":1}': "{}"}, ["1"]),
}


@pytest.mark.parametrize("name", TYPED)
def test_values_by_type(name: str) -> None:
    kind, good, bad = TYPED[name]
    columns = pa.schema([("x", kind)])
    for text, expected in good.items():
        body = f'{{"x":{text}}}\n{{"x":{text}}}\n{{"x":null}}\n{{}}'.encode()
        assert [repr(row["x"]) for row in read(body, columns)[0]] == [expected, expected, "None", "None"]
    for text in bad:
        record = f'{{"x":{text}}}'
        assert read(f"{{}}\n{record}".encode(), columns) == ([{"x": None}], [(record, 2, 1)])


def test_a_reason_names_the_path() -> None:
    item = pa.struct([("price", pa.decimal128(5, 2))])
    columns = pa.schema(
        [("items", pa.list_(item)), ("tags", pa.map_(pa.string(), pa.int8())), ("a", pa.struct([("b", item)]))]
    )
    reasons = {
        b'{"items": [{}, null, {"price": 1.005}]}': "the column items[2].price has the type decimal(5,2), and '1.005' is",
        b'{"items": [{"price": []}]}': "the column items[0].price has the type decimal(5,2), and '[]' is",
        b'{"tags": {"a": 1, "b": 128}}': "the column tags.b has the type tinyint, and '128' is",
        b'{"a": {"b": [1]}}': "the column a.b is an object, and '[1]' is none",
        b'{"a": {"b": {"price": 1, "price": 1}}}': "the name a.b.price comes more than once in one object",
        b"[[1]]": "a record is an object, and '[1]' is none",
    }
    for body, reason in reasons.items():
        (bad,) = JsonParser(columns=columns, options=OPTIONS).parse(InMemory(body))
        assert isinstance(bad, BadRecord)
        assert bad.reason.startswith(reason)


def test_types_that_json_does_not_have_are_refused() -> None:
    for kind in (pa.map_(pa.int64(), pa.string()), pa.duration("us"), pa.list_(pa.null())):
        with pytest.raises(SourceInvalid, match="cannot be read in the type"):
            list(JsonParser(columns=pa.schema([("x", kind)]), options=OPTIONS).parse(InMemory(b'{"x": 1}')))


def test_a_record_that_is_too_long_fails_with_its_place() -> None:
    long = b'{"v": "' + b"x" * LONGEST_RECORD + b'"}'
    for body in (
        b'{"id": 1}\n' + long,
        b"[{},\n" + long + b"]",
        b'{"id": 1}\n' + long[:-1],
        b"{}\n" + b"x" * len(long),
    ):
        with pytest.raises(FileInvalid, match=r"a\.txt: the record at line 2 is longer than 16 MB"):
            read(body, COLUMNS, largest=4 << 20)


def test_a_line_of_megabytes_does_not_hold_its_values() -> None:
    many, one = (b'{"id": 1, "x": "' + b"x" * 200 + b'"}') * 25_000, b'{"v": "' + b"x" * (6 << 20) + b'"}'
    good, bad = read(b"{}\n" + one + b"\n{x\n{}\n" + many + b"x\n{}", COLUMNS, largest=1 << 20)
    assert (len(good), bad) == (25_003, [("{x", 3, 1), ("x\n{}", 5, 2)])
    good, bad = read(b"[" + many.replace(b"}{", b"},{") + b"]\n{x\n{}", COLUMNS, largest=1 << 20)
    assert (len(good), bad) == (25_000, [("{x\n{}", 2, 2)])


def test_a_bad_record_is_shortened() -> None:
    good, bad = read(b"{}\n" + b"x" * (LONGEST_BAD + 1) + b"\n{}\nx" + b"\n" * 5, COLUMNS, largest=1 << 20)
    assert (good, [(len(each[0]), *each[1:]) for each in bad]) == (rows(None, None), [(LONGEST_BAD, 2, 1), (1, 4, 1)])
    assert read(b"x\n" * LONGEST_BAD, COLUMNS, largest=1 << 20)[1] == [
        (("x\n" * LONGEST_BAD)[: LONGEST_BAD - 1], 1, LONGEST_BAD)
    ]


def test_plain_lines_are_read_by_arrow() -> None:
    columns = json_columns.JsonColumns(
        pa.schema([("id", pa.int64()), ("d", pa.decimal128(5, 2)), ("t", pa.date32())]), OPTIONS
    )
    plain = PlainLines(columns)
    line = '{"id": 1, "d": 1.5, "t": "2024-01-01", "other": [{}]}\n'
    batch = plain.read(line * 3)
    assert batch is not None
    assert (batch.num_rows, batch.column("d").to_pylist()) == (3, [Decimal("1.50")] * 3)
    for other in (
        b'{"id": 1} null',
        b'{"x": NaN}',
        b'{"ID": 1}',
        b'{"d": 1e-77}',
        b'{"d": 1000}',
        b'{"x": "\xff"}',
        b'\xef\xbb\xbf{"id": 1}',
    ):
        assert plain.read(line + other.decode("utf-8", "surrogateescape") + "\n" + line) is None


def test_a_parser_is_pickled() -> None:
    parser = pickle.loads(pickle.dumps(JsonParser(columns=COLUMNS, options=OPTIONS)))  # noqa: S301 - our own bytes
    assert [each.to_pylist() for each in parser.parse(InMemory(b'{"id": 1}'))] == [rows(1)]


INFERRED = {
    "scalars": (b'{"b": 1, "a": "x", "c": true, "d": null}', "`a` string, `b` bigint, `c` boolean, `d` string"),
    "numbers": (
        b'{"a": 1, "b": 12345678901234567890, "c": 1.10, "d": 1e400, "e": 0.1234567890123456, "f": 1e5}',
        "`a` bigint, `b` decimal(20,0), `c` double, `d` string, `e` decimal(17,16), `f` double",
    ),
    "texts that look like others": (
        b'{"a": "1", "b": "2024-01-01", "c": "true"}',
        "`a` string, `b` string, `c` string",
    ),
    "mixed": (b'{"a": 1, "b": {}, "c": [1]}\n{"a": true, "b": 1, "c": {"x": 1}}', "`a` string, `b` string, `c` string"),
    "long and double": (b'{"a": 1}{"a": 1.5}[{"a": null}]', "`a` double"),
    "nested": (
        b'{"o": {"y": [1], "x": {}}, "l": []}\n{"o": {"z": [{"q": 1}]}, "l": [[1], [2.5]]}',
        "`l` array<array<double>>, `o` struct<`x`: string, `y`: array<bigint>, `z`: array<struct<`q`: bigint>>>",
    ),
    "names": (b'{"we`ird na:me": 1, "": 2}', "`` bigint, `we``ird na:me` bigint"),
    "bad records": (b'{"a": 1}\n{"a": x}\n5\n{"a": "\xff"}\n{"a": 2}', "`a` bigint"),
}


def test_what_is_nested_deep_is_inferred_as_a_text() -> None:
    inference = JsonInference(options=OPTIONS)
    body = b"[" * 400 + b"]" * 400
    ddl = inference.schema([inference.inferred(InMemory(b'{"a": ' + body + b"}"))])
    assert ddl == "`a` " + "array<" * 49 + "string" + ">" * 49
    kind = pa.string()
    for _ in range(49):
        kind = pa.list_(kind)
    ((row,), bad) = read(b'{"a": ' + body + b"}", pa.schema([("a", kind)]))
    text = row["a"]
    for _ in range(49):
        (text,) = text
    assert (text, bad) == ((b"[" * 351 + b"]" * 351).decode(), [])


@pytest.mark.parametrize("name", INFERRED)
def test_columns_are_inferred(name: str) -> None:
    body, expected = INFERRED[name]
    inference = JsonInference(options=OPTIONS)
    assert inference.schema([inference.inferred(InMemory(body))]) == expected


def test_columns_of_several_files_are_joined_in_any_order() -> None:
    inference = JsonInference(options=OPTIONS)
    bodies = [
        b'{"a": 1, "o": {"x": 1}}',
        b'[{"a": 1.5, "b": [true]}]',
        b"",
        b'{"o": {"y": 12345678901234567890}, "b": []}',
    ]
    results = [inference.inferred(InMemory(body)) for body in bodies]
    expected = "`a` double, `b` array<boolean>, `o` struct<`x`: bigint, `y`: decimal(20,0)>"
    assert inference.schema(results) == inference.schema(results[::-1]) == expected


def test_columns_that_cannot_be_inferred() -> None:
    inference = JsonInference(options=OPTIONS)
    with pytest.raises(SourceInvalid, match="give a schema"):
        inference.schema([inference.inferred(InMemory(b"[]"))])
    with pytest.raises(SourceInvalid, match="'A' and 'a' differ in case only"):
        inference.schema([inference.inferred(InMemory(b'{"x": [{"a": 1, "A": 2}]}'))])


@pytest.mark.parametrize("missing", [b"{}", b'{"a": null}'])
@pytest.mark.parametrize("more", [b"", b"[]\n"])
def test_a_missing_value_is_bad_where_the_column_is_not_null(missing: bytes, more: bytes) -> None:
    columns = pa.schema([pa.field("a", pa.int64(), nullable=False), pa.field("b", pa.string())])
    body = b'{"a": 1}\n' + missing + b"\n" + more
    parsed = list(JsonParser(columns=columns, options=ReadOptions()).parse(InMemory(body)))
    reason = "the column a is NOT NULL, and has no value"
    assert [each for each in parsed if isinstance(each, BadRecord)] == [
        BadRecord(record=missing.decode(), at="line 2", reason=reason)
    ]
    assert [row for each in parsed if isinstance(each, pa.RecordBatch) for row in each.to_pylist()] == [
        {"a": 1, "b": None}
    ]


def test_the_format_that_was_given_stands_in_the_reason() -> None:
    columns = pa.schema([("day", pa.date32()), ("of", pa.list_(pa.struct([("at", pa.timestamp("us", "UTC"))])))])
    options = ReadOptions.of("json", {"dateFormat": "dd/MM/yyyy", "timestampFormat": "dd/MM/yyyy HH:mm"})
    body = b"""
{"day": "20/11/2026", "of": [{"at": "20/11/2026 07:30"}]}
{"day": "2026-11-20"}
{"day": 20112026}
{"of": [{"at": "20.11.2026"}]}
{"of": [{"at": 5}]}
"""
    parsed = list(JsonParser(columns=columns, options=options).parse(InMemory(body)))
    reasons = sorted(each.reason.split(" has the type ")[1] for each in parsed if isinstance(each, BadRecord))
    assert reasons == [
        "date, and '20112026' is no date as dd/MM/yyyy (dateFormat)",
        "date, and '2026-11-20' is no date as dd/MM/yyyy (dateFormat)",
        "timestamp, and '20.11.2026' is no date and time as dd/MM/yyyy HH:mm (timestampFormat)",
        "timestamp, and '5' is no date and time as dd/MM/yyyy HH:mm (timestampFormat)",
    ]
