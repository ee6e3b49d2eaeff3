"""JSON and text files, each with what it holds. The expected rows are written by hand from RFC 8259 and docs/ingest.md."""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Iterator, Sequence
from typing import Any, Final

import zstandard

from tests.corpus.forms import BAD, Allowed, allowed
from tests.corpus.model import Case, Expected, Group, Input, Row
from tests.corpus.texts import BROKEN_LINES, KINDS, TEXTS

TWO: Final = "id long, note string"
TOKENS: Final = """
0 -0 1 -1 127 128 255 32768 2147483648 9007199254740993 9223372036854775807 9223372036854775808 -9223372036854775809
12345678901234567890 99999999999999999999999999999999999999 100000000000000000000000000000000000000
0.0 -0.0 1.0 1.5 -1.5 1.10 1.005 0.1 0.30000000000000004 1e3 1E3 1e+3 1e-3 1.5e2 1e400 -1e400 1e-400 1e308 4.9e-324
1.7976931348623157e308 1.7976931348623159e308 3.4028236e38 16777217 0.12345 0.123456 99999999.99 100000000.00
0.1234567890123456789 12345678901234567890123 1.50000 1e38 20240101 1704105000 1704105000000 1704105000.5
true false {} [] {"a":1} [1,2] [1,"a"]
""".split()


def case(
    name: str,
    content: bytes | str,
    schema: str | None,
    *rows: Row,
    file: str = "a.json",
    bad: int | Sequence[str] = 0,
    refused: str | None = None,
    types: str | None = None,
    also: Sequence[Expected] = (),
    source: str = "json",
    **options: Any,
) -> Case:
    encoded = content.encode() if isinstance(content, str) else content
    expected = Expected(rows=rows, bad=bad, refused=refused, types=types)
    inputs = Input(source=source, content=encoded, file=file, schema=schema, options=options)
    return Case(name=name, input=inputs, expected=[expected, *also])


def groups() -> Iterator[Group]:
    """Every text under every type, and every token of JSON."""
    for kind in KINDS:
        texts = [*TEXTS, *BROKEN_LINES, ""]
        yield _group(
            "text", kind, [(text, json.dumps(text, ensure_ascii=bool(len(text) % 2))) for text in texts], _of_text
        )
        yield _group("token", kind, [(token, token) for token in TOKENS], _of_token)
        yield _group("null", kind, [("null", "null")], lambda _text, _kind: (None,))
    texts = [base64.b64encode(content).decode() for content in (b"", b"a", b"\x00\xff", b"abcd")]
    values = {text: (BAD, "0x" + base64.b64decode(text).hex(), "0x" + text.encode().hex()) for text in texts}
    yield _group("text", "binary", [(text, json.dumps(text)) for text in texts], lambda text, _kind: values[text])


def _group(name: str, kind: str, values: Sequence[tuple[str, str]], allowed_of: Any) -> Group:
    lines = [f'{{"id": {at}, "v": {token}}}\n' for at, (_, token) in enumerate(values)]
    return Group(
        name=name,
        kind=kind,
        input=Input(source="json", content="".join(lines).encode(), file="a.json", schema=f"id long, v {kind}"),
        expected=[(text, allowed_of(text, kind)) for text, _ in values],
        tokens=[token for _, token in values],
    )


def _of_text(text: str, kind: str) -> Allowed:
    """A text that is no date and no time is a number or a boolean by its form, or a bad record: JSON has these by themselves."""
    if kind != "string" and not text.strip():
        return (BAD,) if text == "" else (BAD, None)
    values = allowed(text, kind)
    return values if kind in {"string", "date", "timestamp", "timestamp_ntz"} else tuple(dict.fromkeys((*values, BAD)))


def _of_token(token: str, kind: str) -> Allowed:
    if kind == "string":
        return (token, BAD)
    if kind == "boolean":
        return (token,) if token in {"true", "false"} else (BAD,)
    if kind in {"date", "timestamp", "timestamp_ntz"} or token[0] in "tf{[":
        return (BAD,)
    return allowed(token, kind)


A1: Final[Row] = ("1", "a")
B2: Final[Row] = ("2", "b")
ONE: Final = '{"id": 1, "note": "a"}'
OTHER: Final = '{"id": 2, "note": "b"}'


def cases() -> Iterator[Case]:
    yield from layouts()
    yield from breaks()
    yield from members()
    yield from nested()
    yield from strings()
    yield from files()
    yield from inferred()
    yield from texts()


def layouts() -> Iterator[Case]:
    both = (A1, B2)
    yield case(
        "pretty",
        '[\n {"id": 1,\n  "amount": 2},\n {"id": 2,\n  "amount": 3}\n]\n',
        "id long, amount long",
        ("1", "2"),
        ("2", "3"),
    )
    yield case("array_lines", f"[\n{ONE},\n{OTHER}\n]\n", TWO, *both)
    yield case("two_in_a_line", f"{ONE}{OTHER}\n", TWO, *both)
    for name, between in (
        ("lines", "\n"),
        ("CRLF", "\r\n"),
        ("CR", "\r"),
        ("a blank", " "),
        ("tabs", "\t\t"),
        ("blank lines", "\n\n \n"),
    ):
        yield case(f"values with {name} between", f"{ONE}{between}{OTHER}{between}", TWO, *both)
        yield case(f"values with {name} between, not behind the last", f"{ONE}{between}{OTHER}", TWO, *both)
    yield case("white space before all", f"\n\n  {ONE}\n{OTHER}", TWO, *both)
    yield case("an array in one line", f"[{ONE},{OTHER}]", TWO, *both)
    yield case("an array a line", f"[{ONE}]\n[{OTHER}]\n", TWO, *both)
    yield case("an array and an object", f"[{ONE}]\n{OTHER}\n", TWO, *both)
    yield case("an empty array", "[]\n", TWO)
    yield case("an empty array, then an object", f"[]\n{ONE}", TWO, A1)
    pretty = json.dumps([json.loads(ONE), json.loads(OTHER)], indent=4)
    yield case("pretty by Python", pretty, TWO, *both)
    yield case(
        "pretty objects one after another (jq)",
        "\n".join(json.dumps(json.loads(each), indent=2) for each in (ONE, OTHER)),
        TWO,
        *both,
    )
    yield case("a file with no byte", b"", TWO)
    yield case("only white space", " \n\t\n", TWO)
    many = "".join(f'{{"id": {at}, "note": "a"}}' for at in range(5000))
    yield case("5000 values without white space", many, TWO, *[(str(at), "a") for at in range(5000)])


def breaks() -> Iterator[Case]:
    yield case("a broken line", f"{ONE}\n{{broken\n{OTHER}\n", TWO, A1, B2, bad=["{broken"])
    yield case("a line that is cut off", f'{ONE}\n{{"id": 2, "no\n{OTHER}\n', TWO, A1, B2, bad=['{"id": 2, "no'])
    yield case("the last line is cut off", f'{ONE}\n{{"id": 2, "no', TWO, A1, bad=['{"id": 2, "no'])
    yield case("text behind a value", f"{ONE} x\n{OTHER}\n", TWO, B2, bad=1, also=[Expected(rows=[A1, B2], bad=1)])
    yield case(
        "a comma between values",
        f"{ONE},\n{OTHER}\n",
        TWO,
        B2,
        bad=1,
        also=[Expected(rows=[A1, B2], bad=1), Expected(rows=[A1], bad=2)],
    )
    broken = '[\n {"id": 1, "note": "a"},\n {"id": 2,\n  "note": b},\n {"id": 3, "note": "c"}\n]\n'
    yield case(
        "a broken array of lines", broken, TWO, A1, bad=4, also=[Expected(rows=[A1], bad=3), Expected(rows=[A1], bad=5)]
    )
    yield case(
        "an array that is cut off",
        f"[\n{ONE},\n{OTHER}",
        TWO,
        A1,
        B2,
        bad=1,
        also=[Expected(rows=[A1], bad=1), Expected(rows=[A1], bad=2), Expected(rows=[A1, B2], refused="a.json")],
    )
    for token in ("NaN", "Infinity", "-Infinity", "+1", "01", "1.", ".5", "0x1", "'a'", "undefined", "True", "1e", "-"):
        yield case(
            f"{token} is no JSON", f'{ONE}\n{{"id": {token}}}\n{OTHER}\n', TWO, A1, B2, bad=[f'{{"id": {token}}}']
        )
    for name, text in (
        ("a comma at the end", '{"id": 3,}'),
        ("a comment", '{"id": 3} // c'),
        ("a comment inside", '{/* c */"id": 3}'),
        ("a name without quotes", "{id: 3}"),
        ("a single quote", "{'id': 3}"),
        ("a control character", '{"note": "a\x01b"}'),
        ("a tab in a text", '{"note": "a\tb"}'),
        ("an unknown escape", '{"note": "\\x41"}'),
    ):
        yield case(
            f"{name} is no JSON",
            f"{ONE}\n{text}\n{OTHER}\n",
            TWO,
            A1,
            B2,
            bad=[text],
            also=[Expected(rows=[A1, ("3", None), B2], bad=1)] if "//" in text else [],
        )
    for token in ("1", '"a"', "null", "true", "[1]", "[null]", '["a"]'):
        yield case(
            f"{token} is no record",
            f"{ONE}\n{token}\n{OTHER}\n",
            TWO,
            A1,
            B2,
            bad=1,
            also=[Expected(rows=[A1, (None, None), B2])] if "null" in token else [],
        )


def members() -> Iterator[Case]:
    yield case(
        "members that are missing", '{"id": 1}\n{"note": "b"}\n{}\n', TWO, ("1", None), (None, "b"), (None, None)
    )
    yield case("members that the schema does not name", '{"id": 1, "note": "a", "more": {"x": [1]}}\n', TWO, A1)
    yield case("members in another order", '{"note": "a", "id": 1}\n', TWO, A1)
    yield case("names in another case", '{"ID": 1, "Note": "a"}\n', TWO, A1, also=[Expected(rows=[(None, None)])])
    yield case("a name twice", '{"id": 1, "id": 1, "note": "a"}\n', TWO, A1, also=[Expected(bad=1)])
    yield case("a name twice, with other values", '{"id": 1, "id": 2, "note": "b"}\n', TWO, B2, also=[Expected(bad=1)])
    yield case("a name with an escape", '{"i\\u0064": 1, "note": "a"}\n', TWO, A1)
    tokens = ["12345678901234567890", "1.10", "1e400", "-0"]
    lines = "".join(f'{{"id": {at}, "v": {token}}}\n' for at, token in enumerate(tokens))
    kept = [(str(at), token) for at, token in enumerate(tokens)]
    yield case("number_to_text", lines, "id long, v string", *kept, also=[Expected(bad=4)])
    yield case(
        "a value that does not fit", f'{ONE}\n{{"id": "x", "note": "b"}}\n', TWO, A1, bad=['{"id": "x", "note": "b"}']
    )


def nested() -> Iterator[Case]:
    yield case(
        "array<long>",
        '{"v": [1, null, 3]}\n{"v": []}\n{"v": null}\n',
        "v array<long>",
        (["1", None, "3"],),
        ([],),
        (None,),
    )
    yield case("array<long> with a text", '{"v": [1, "x"]}\n{"v": [2]}\n', "v array<long>", (["2"],), bad=1)
    yield case("array<decimal>", '{"v": [1.10, 2]}\n', "v array<decimal(5,2)>", (["1.10", "2.00"],))
    yield case("array<decimal> beyond the scale", '{"v": [1.005]}\n', "v array<decimal(5,2)>", bad=1)
    yield case(
        "array<timestamp>", '{"v": ["2024-01-01T10:30:00+02:00"]}\n', "v array<timestamp>", (["2024-01-01T08:30:00Z"],)
    )
    yield case("array<timestamp> of a time", '{"v": ["10:30"]}\n', "v array<timestamp>", bad=1)
    struct = "v struct<a: long, b: string>"
    yield case(
        "struct",
        '{"v": {"a": 1, "b": "x"}}\n{"v": {}}\n{"v": null}\n',
        struct,
        ([["a", "1"], ["b", "x"]],),
        ([["a", None], ["b", None]],),
        (None,),
    )
    yield case("struct with a wrong value", '{"v": {"a": "x", "b": "x"}}\n', struct, bad=1)
    yield case("struct that is a number", '{"v": 1}\n{"v": [1]}\n{"v": "a"}\n', struct, bad=3)
    yield case(
        "map", '{"v": {"b": 1, "a": null}}\n{"v": {}}\n', "v map<string, long>", ([["b", "1"], ["a", None]],), ([],)
    )
    yield case("map with a wrong value", '{"v": {"b": 1.5}}\n', "v map<string, long>", bad=1)
    deep = "v array<struct<a: array<struct<b: decimal(38,18)>>>>"
    yield case(
        "struct in array in struct",
        '{"v": [{"a": [{"b": 0.123456789012345678}, null]}]}\n',
        deep,
        ([[["a", [[["b", "0.123456789012345678"]], None]]]],),
    )
    yield case(
        "1000 brackets",
        f'{ONE}\n{{"id": 1, "x": {"[" * 1000}{"]" * 1000}}}\n',
        TWO,
        A1,
        ("1", None),
        also=[Expected(rows=[A1], bad=1)],
    )
    yield case(
        "100,000 brackets",
        f'{ONE}\n{{"id": 1, "x": {"[" * 100_000}{"]" * 100_000}}}\n{OTHER}\n',
        TWO,
        A1,
        ("1", None),
        B2,
        also=[Expected(rows=[A1, B2], bad=1)],
    )


def strings() -> Iterator[Case]:
    for name, token, value in (
        *(("surrogate pair", "\\ud83d\\ude00", "😀"), ("all escapes", '\\"\\\\\\/\\b\\f\\n\\r\\t', '"\\/\b\f\n\r\t')),
        *(
            ("U+0000", "\\u0000", "\x00"),
            ("U+2028", "\u2028", "\u2028"),
            ("bytes of UTF-8", "ü€😀", "ü€😀"),
            ("DEL", "\x7f", "\x7f"),
        ),
    ):
        yield case(f"text: {name}", f'{{"id": 1, "note": "{token}"}}\n', TWO, ("1", value))
    for name, token in (
        ("lone high surrogate", "\\ud800"),
        ("lone low surrogate", "\\udc00"),
        ("surrogates the wrong way", "\\ude00\\ud83d"),
    ):
        yield case(f"text: {name}", f'{{"id": 1, "note": "{token}"}}\n{OTHER}\n', TWO, B2, bad=1)
    for name, broken in (
        ("cut character", b"\xc3"),
        ("surrogate", b"\xed\xa0\x80"),
        ("overlong", b"\xc0\xaf"),
        ("0xFF", b"\xff"),
    ):
        yield case(f"no UTF-8: {name}", b'{"id": 1, "note": "a' + broken + b'"}\n' + OTHER.encode(), TWO, B2, bad=1)
    long = "x" * 200_000
    yield case("a long text", f'{{"id": 1, "note": "{long}"}}\n{OTHER}', TWO, ("1", long), B2)
    yield case("9999 digits under long", f'{ONE}\n{{"id": {"1" * 9999}}}\n{OTHER}\n', TWO, A1, B2, bad=1)


def files() -> Iterator[Case]:
    content = f"{ONE}\n{OTHER}\n"
    both = (A1, B2)
    yield case("X.json.GZ", gzip.compress(ONE.encode()), TWO, A1, file="X.json.GZ")
    yield case("packed: .gz", gzip.compress(content.encode()), TWO, *both, file="a.json.gz")
    yield case("packed: .zst", zstandard.compress(content.encode()), TWO, *both, file="a.jsonl.zst")
    yield case("packed, but not by name", gzip.compress(content.encode()), TWO, refused="a.json")
    yield case("packed by name only", content, TWO, refused="a.json.gz", file="a.json.gz")
    yield case("UTF-8 with its mark", content.encode("utf-8-sig"), TWO, *both)
    yield case("UTF-16 LE by its mark", b"\xff\xfe" + content.encode("utf-16-le"), TWO, *both)
    yield case("UTF-16 BE by its mark", b"\xfe\xff" + content.encode("utf-16-be"), TWO, *both)
    yield case("encoding UTF-16LE", content.encode("utf-16-le"), TWO, *both, encoding="UTF-16LE")
    yield case("Parquet by content", b"PAR1" + b"\x00" * 20 + b"PAR1", TWO, refused="a.json")


def inferred() -> Iterator[Case]:
    for name, tokens, kind, values in (
        ("whole numbers", ["1", "-5"], "long", ["1", "-5"]),
        ("beyond 64 bits", ["9223372036854775808"], "decimal(19,0)", ["9223372036854775808"]),
        ("points", ["1.5", "2"], "double", ["1.5", "2.0"]),
        ("18 digits", ["1.12345678901234567"], "decimal(18,17)", ["1.12345678901234567"]),
        ("booleans", ["true", "null"], "boolean", ["true", None]),
        ("texts", ['"a"', "null"], "string", ["a", None]),
        ("arrays", ["[1]", "[]"], "array<long>", [["1"], []]),
        (
            "objects",
            ['{"a": 1}', '{"b": "x"}'],
            "struct<a:long,b:string>",
            [[["a", "1"], ["b", None]], [["a", None], ["b", "x"]]],
        ),
        ("numbers and texts", ["1", '"a"'], "string", ["1", "a"]),
        ("texts like 01234", ['"01234"'], "string", ["01234"]),
    ):
        lines = "".join(f'{{"id": {at}, "v": {token}}}\n' for at, token in enumerate(tokens))
        rows = [(str(at), value) for at, value in enumerate(values)]
        yield case(f"inferred: {name}", lines, None, *rows, types=f"id long, v {kind}")


def texts() -> Iterator[Case]:
    """Files of the format text: a line is a value."""

    def text(name: str, content: bytes | str, *values: str, bad: int = 0, **more: Any) -> Case:
        return case(
            name, content, "value string", *[(value,) for value in values], bad=bad, source="text", file="a.txt", **more
        )

    yield text("lines end with LF", "a\nb\n", "a", "b")
    yield text("lines end with CRLF", "a\r\nb\r\n", "a", "b")
    yield text("the last line has no end", "a\nb", "a", "b")
    yield text("blank lines", "a\n\n\nb\n", "a", "", "", "b")
    yield text("blanks at both ends", " a \n", " a ")
    yield text("UTF-8 with its mark", "ü\n".encode("utf-8-sig"), "ü")
    yield text("UTF-16 LE by its mark", b"\xff\xfe" + "ü\n".encode("utf-16-le"), "ü")
    yield text("no UTF-8", b"a\xff\nb\n", "b", bad=1)
    yield text("latin-1 by its option", "ü\n".encode("latin-1"), "ü", encoding="ISO-8859-1")
    yield text("U+2028", "a\u2028b\n", "a\u2028b")
    yield text("lineSep", "a;b;", "a", "b", lineSep=";")
    yield text("a file with no byte", b"")
    yield text("a line of 100,000", "x" * 100_000 + "\n", "x" * 100_000)
