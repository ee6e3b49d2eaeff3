"""CSV files, each with what it holds. The expected rows are written by hand from RFC 4180 and docs/ingest.md."""

from __future__ import annotations

import bz2
import csv
import gzip
import io
from collections.abc import Iterator, Sequence
from typing import Any, Final

import zstandard

from tests.corpus.forms import BAD, Allowed, allowed
from tests.corpus.model import Case, Expected, Group, Input, Row
from tests.corpus.texts import BROKEN_LINES, KINDS, ODD, TEXTS

TWO: Final = "id long, note string"
THREE: Final = "a string, note string, z string"


def case(
    name: str,
    content: bytes | str,
    schema: str | None,
    *rows: Row,
    file: str = "a.csv",
    bad: int | Sequence[str] = 0,
    refused: str | None = None,
    types: str | None = None,
    also: Sequence[Expected] = (),
    **options: Any,
) -> Case:
    encoded = content.encode() if isinstance(content, str) else content
    expected = Expected(rows=rows, bad=bad, refused=refused, types=types)
    inputs = Input(source="csv", content=encoded, file=file, schema=schema, options=options)
    return Case(name=name, input=inputs, expected=[expected, *also])


def groups() -> Iterator[Group]:
    """Every text under every type: bare where RFC 4180 allows it, and in quotes."""
    for kind in KINDS:
        for quoted in (False, True):
            bare = [text for text in TEXTS if not set(text) & set('",\r\n')]
            texts = list(dict.fromkeys((*TEXTS[::5], *ODD, *BROKEN_LINES, ""))) if quoted else bare
            out = io.StringIO(newline="")
            lines = csv.writer(out, quoting=csv.QUOTE_NONNUMERIC if quoted else csv.QUOTE_MINIMAL)
            lines.writerow(["id", "v"])
            lines.writerows(enumerate(texts))
            yield Group(
                name="quoted" if quoted else "bare",
                kind=kind,
                input=Input(source="csv", content=out.getvalue().encode(), file="a.csv", schema=f"id long, v {kind}"),
                expected=[(text, _allowed(text, kind)) for text in texts],
                tokens=['"' + text.replace('"', '""') + '"' if quoted else text for text in texts],
            )


def _allowed(text: str, kind: str) -> Allowed:
    if text.strip() == "" and kind != "string":
        return (BAD,) if text == "" else (BAD, None)
    return allowed(text, kind)


A1: Final[Row] = ("1", "a")
X2: Final[Row] = ("2", "x")


def cases() -> Iterator[Case]:
    yield from line_ends()
    yield from quotes()
    yield from fields()
    yield from encodings()
    yield from packed()
    yield from options()
    yield from inferred()


def line_ends() -> Iterator[Case]:
    for label, end in (("LF", "\n"), ("CRLF", "\r\n"), ("CR", "\r")):
        body = end.join(["id,note", "1,a", "2,x"])
        yield case(f"lines end with {label}", body + end, TWO, A1, X2)
        yield case(f"lines end with {label}, but the last", body, TWO, A1, X2)
        yield case(f"{label}, blank lines", body.replace(end, end + end) + end + end, TWO, A1, X2)
        for inner_label, inner in (("LF", "\n"), ("CRLF", "\r\n"), ("CR", "\r")):
            text = f"a{inner}b"
            quoted = end.join(["id,note", f'1,"{text}"', "2,x", ""])
            yield case(f"{inner_label} in quotes, lines end with {label}", quoted, TWO, ("1", text), X2)
            yield case(
                f"{inner_label} in quotes in the last field, {label}", quoted[: -len(end) * 2 - 3], TWO, ("1", text)
            )
    yield case("a blank line in a file of one column is a null", "v\na\n\nb\n", "v string", ("a",), (None,), ("b",))
    yield case("one column, the last line is blank", "v\na\n\n", "v string", ("a",), (None,))
    yield case("one column, quoted empty text", 'v\n""\n', "v string", ("",))
    yield case("CR in a field without quotes of a file with LF", "id,note\n1,a\rb\n2,x\n", TWO, X2, bad=["1,a\rb"])
    yield case(
        "LF in a field without quotes of a file with CRLF", "id,note\r\n1,a\nb\r\n2,x\r\n", TWO, X2, bad=["1,a\nb"]
    )
    yield case("a line of a file with LF ends with CRLF", "id,note\n1,a\r\n2,x\n", TWO, X2, bad=1)
    yield case("a file with no byte", b"", TWO, also=[Expected(refused="a.csv")])
    yield case("a header and no record", "id,note\n", TWO)
    yield case("a header without line end", "id,note", TWO)
    yield case("only blank lines after the header", "id,note\n\n\n", TWO)


def quotes() -> Iterator[Case]:
    yield case("newline_in_quotes", 'id,note\n1,"first\nsecond"\n2,x\n', TWO, ("1", "first\nsecond"), X2)
    yield case(
        "newline_middle", 'a,note,z\nk,"first\nsecond",e\nk,x,e\n', THREE, ("k", "first\nsecond", "e"), ("k", "x", "e")
    )
    yield case("doubled_quote", 'id,note\n1,"a ""q"" b"\n2,x\n', TWO, ("1", 'a "q" b'), X2)
    yield case("doubled_quote_comma", 'id,note\n1,"a ""q"", b"\n2,x\n', TWO, ("1", 'a "q", b'), X2)
    backslash = 'id,note,z\n1,"C:\\dir\\",k\n2,x,k\n'
    yield case("backslash_at_end", backslash, f"{TWO}, z string", ("1", "C:\\dir\\", "k"), ("2", "x", "k"))
    yield case("json_in_csv", 'id,note\n1,"{""a"": ""x\\""y""}"\n2,x\n', TWO, ("1", '{"a": "x\\"y"}'), X2)
    yield case("empty_quoted", 'id,note\n1,""\n2,\n3,x\n', TWO, ("1", ""), ("2", None), ("3", "x"))
    yield case("unclosed_quote", 'id,note\n1,"abc\n2,x\n', TWO, bad=2)
    yield case("a quote that is open in the last line", 'id,note\n1,a\n2,"x', TWO, A1, bad=['2,"x'])
    yield case("an open quote, and many lines", 'id,note\n1,a\n2,"x\n3,y\n4,z\n5,w\n', TWO, A1, bad=4)
    yield case("a quote within a field without quotes", 'id,note\n1,a"b\n2,x\n', TWO, X2, bad=['1,a"b'])
    yield case("a quoted part within a field", 'id,note\n1,a"b"c\n2,x\n', TWO, X2, bad=['1,a"b"c'])
    yield case("a quote behind a blank", 'id,note\n1, "a"\n2,x\n', TWO, X2, bad=['1, "a"'])
    yield case("text behind a closing quote", 'id,note\n1,"a"b\n2,x\n', TWO, X2, bad=['1,"a"b'])
    yield case("a blank behind a closing quote", 'id,note\n1,"a" \n2,x\n', TWO, X2, bad=1)
    yield case(
        "text behind a quote, then a line break in quotes", 'id,note\n1,"a"b\n2,"x\ny"\n', TWO, ("2", "x\ny"), bad=1
    )
    yield case("only quotes", 'id,note\n1,""""\n2,""""""\n', TWO, ("1", '"'), ("2", '""'))
    yield case("quotes around everything", '"id","note"\n"1","a"\n"2","x"\n', TWO, A1, X2)
    yield case("line breaks at both ends of a text", 'id,note\n1,"\na\n"\n2,x\n', TWO, ("1", "\na\n"), X2)
    yield case(
        "ten thousand lines in one text", 'id,note\n1,"' + "l\n" * 10_000 + '"\n2,x\n', TWO, ("1", "l\n" * 10_000), X2
    )
    yield case("a header with a line break", '"i\nd",note\n1,a\n2,x\n', "`i\nd` long, note string", A1, X2)
    yield case("a blank line in quotes", 'id,note\n1,"a\n\nb"\n2,x\n', TWO, ("1", "a\n\nb"), X2)


def fields() -> Iterator[Case]:
    yield case("row_more", "id,note\n1,a\n2,b,surplus\n3,c\n", TWO, A1, ("3", "c"), bad=["2,b,surplus"])
    yield case("a field less", "id,note\n1,a\n2\n3,c\n", TWO, A1, ("3", "c"), bad=["2"])
    yield case("a comma more", "id,note\n1,a,\n2,x\n", TWO, X2, bad=["1,a,"])
    yield case("fields that are empty", "a,note,z\n,,\nx,,\n", THREE, (None, None, None), ("x", None, None))
    yield case("a record of blanks", "id,note\n   \n2,x\n", TWO, X2, bad=1)
    yield case("blanks are part of a text", "id,note\n1, a \n2,x\n", TWO, ("1", " a "), X2)
    yield case(
        "a NUL in a text", b"id,note\n1,a\x00b\n2,x\n", TWO, ("1", "a\x00b"), X2, also=[Expected(rows=[X2], bad=1)]
    )
    yield case("another header", "id,other\n1,a\n", TWO, refused="other")
    yield case("the header in another order", "note,id\na,1\n", TWO, A1, also=[Expected(refused="a.csv")])
    yield case("a column less in the header", "id\n1\n", TWO, refused="a.csv")
    yield case("a column more in the header", "id,note,more\n1,a,b\n", TWO, refused="more", also=[Expected(rows=[A1])])
    yield case("a value that does not fit", "id,note\nx,a\n2,x\n", TWO, X2, bad=["x,a"])
    yield case("dec_round", "id,v\n1,\n2,1.005\n", "id long, v decimal(10,2)", ("1", None), bad=["2,1.005"])
    yield case("time_only", "id,v\n1,\n2,10:30\n", "id long, v timestamp", ("1", None), bad=["2,10:30"])
    long = "x" * 100_000
    yield case("a long text", f"id,note\n1,{long}\n2,x\n", TWO, ("1", long), X2)
    wide = ",".join(f"c{at}" for at in range(500))
    values = tuple(str(at) for at in range(500))
    schema = ", ".join(f"c{at} long" for at in range(500))
    yield case("500 columns", f"{wide}\n{','.join(values)}\n", schema, values)
    yield case(
        "a column named _corrupt_record",
        "id,_corrupt_record\n1,a\n",
        None,
        A1,
        also=[Expected(refused="_corrupt_record")],
    )
    yield case("a column named _record", "id,_record\n1,a\n", None, A1, types="id long, _record string")


def encodings() -> Iterator[Case]:
    text = "id,note\n1,Zürich\n2,x\n"
    zurich = ("1", "Zürich")
    yield case("latin1", text.encode("latin-1"), TWO, X2, bad=1)
    for name, encoding in (
        ("ISO-8859-1", "latin-1"),
        ("windows-1252", "cp1252"),
        ("UTF-16LE", "utf-16-le"),
        ("UTF-8", "utf-8"),
    ):
        yield case(f"encoding {name}", text.encode(encoding), TWO, zurich, X2, encoding=name)
    yield case("UTF-8 with its mark", text.encode("utf-8-sig"), TWO, zurich, X2)
    yield case("UTF-8 with its mark, quoted header", '"id",note\n1,a\n'.encode("utf-8-sig"), TWO, A1)
    yield case("UTF-16 LE by its mark", b"\xff\xfe" + text.encode("utf-16-le"), TWO, zurich, X2)
    yield case("UTF-16 BE by its mark", b"\xfe\xff" + text.encode("utf-16-be"), TWO, zurich, X2)
    excel = text.replace("\n", "\r\n").replace(",", "\t")
    yield case("UTF-16 with tabs", b"\xff\xfe" + excel.encode("utf-16-le"), TWO, zurich, X2, sep="\t")
    for name, broken in (
        ("cut character", b"\xc3"),
        ("surrogate", b"\xed\xa0\x80"),
        ("overlong", b"\xc0\xaf"),
        ("0xFF", b"\xff"),
    ):
        yield case(f"no UTF-8: {name}", b"id,note\n1,a" + broken + b"\n2,x\n", TWO, X2, bad=1)
    yield case("a mark in the middle is a character", "id,note\n1,\ufeffa\n2,x\n", TWO, ("1", "\ufeffa"), X2)
    yield case("beyond the basic plane", "id,note\n1,😀\n2,x\n", TWO, ("1", "😀"), X2)
    yield case(
        "U+2028 and U+0085 are no line ends", "id,note\n1,a\u2028b\u0085c\n2,x\n", TWO, ("1", "a\u2028b\u0085c"), X2
    )
    yield case("form feed and vertical tab are no line ends", "id,note\n1,a\fb\vc\n2,x\n", TWO, ("1", "a\fb\vc"), X2)


def packed() -> Iterator[Case]:
    content = b'id,note\n1,"a\nb"\n2,x\n'
    rows = (("1", "a\nb"), X2)
    for ending, pack in (
        (".gz", gzip.compress),
        (".bz2", bz2.compress),
        (".zst", zstandard.compress),
        (".GZ", gzip.compress),
    ):
        yield case(f"packed: {ending}", pack(content), TWO, *rows, file=f"a.csv{ending}")
    yield case(
        "packed in two members", gzip.compress(content[:9]) + gzip.compress(content[9:]), TWO, *rows, file="a.csv.gz"
    )
    yield case("packed, but not by name", gzip.compress(content), TWO, refused="a.csv")
    yield case("packed by name only", content, TWO, refused="a.csv.gz", file="a.csv.gz")
    yield case("packed and cut off", gzip.compress(content)[:-5], TWO, refused="a.csv.gz", file="a.csv.gz")
    yield case("upper case name", content, TWO, *rows, file="A.CSV")


def options() -> Iterator[Case]:
    yield case("sep ;", "id;note\n1;a,b\n2;x\n", TWO, ("1", "a,b"), X2, sep=";")
    yield case("sep tab", "id\tnote\n1\ta\n2\tx\n", TWO, A1, X2, sep="\\t")
    yield case("sep |", 'id|note\n1|"a|b"\n2|x\n', TWO, ("1", "a|b"), X2, sep="|")
    yield case("quote '", "id,note\n1,'a,''b'\n2,x\n", TWO, ("1", "a,'b"), X2, quote="'")
    yield case("escape \\", 'id,note\n1,"a\\"b"\n2,x\n', TWO, ("1", 'a"b'), X2, escape="\\")
    yield case("no header", "1,a\n2,x\n", TWO, A1, X2, header=False)
    yield case("nullValue", "id,note\n1,a\nNA,NA\n", TWO, A1, (None, None), nullValue="NA")
    yield case("nullValue \\N", "id,note\n1,\\N\n2,x\n", TWO, ("1", None), X2, nullValue="\\N")
    yield case("comment", "id,note\n#1,a\n2,x\n", TWO, X2, comment="#")
    yield case("ignoreLeadingWhiteSpace", "id,note\n1, a \n", TWO, ("1", "a "), ignoreLeadingWhiteSpace=True)
    yield case("ignoreTrailingWhiteSpace", "id,note\n1, a \n", TWO, ("1", " a"), ignoreTrailingWhiteSpace=True)
    yield case("lineSep", "id,note;1,a;2,x;", TWO, A1, X2, lineSep=";")
    dated = "id long, v date"
    yield case(
        "dateFormat", "id,v\n1,31.12.2024\n2,2024-12-31\n", dated, ("1", "2024-12-31"), bad=1, dateFormat="dd.MM.yyyy"
    )
    moment = "id long, v timestamp"
    written = "id,v\n1,31.12.2024 10:30\n2,x\n"
    options = {"timestampFormat": "dd.MM.yyyy HH:mm"}
    yield case("timestampFormat", written, moment, ("1", "2024-12-31T10:30:00Z"), bad=1, **options)
    zoned = "id,v\n1,2024-07-01 10:30:00\n2,2024-01-01T10:30:00Z\n"
    utc = (("1", "2024-07-01T08:30:00Z"), ("2", "2024-01-01T10:30:00Z"))
    yield case("timeZone", zoned, moment, *utc, timeZone="Europe/Berlin")
    yield case("multiLine false", 'id,note\n1,"a\nb"\n2,x\n', TWO, X2, bad=2, multiLine=False)
    yield case(
        "mode DROPMALFORMED", "id,note\nx,a\n2,x\n", TWO, X2, mode="DROPMALFORMED", also=[Expected(rows=[X2], bad=1)]
    )
    yield case(
        "an unknown option",
        "id,note\n1,a\n",
        TWO,
        refused="unescapedQuoteHandling",
        unescapedQuoteHandling="SKIP_VALUE",
    )


def inferred() -> Iterator[Case]:
    yield case("zip", "id,zip\n1,01234\n2,98765\n", None, ("1", "01234"), ("2", "98765"), types="id long, zip string")
    for name, texts, kind, values in INFERRED:
        body = "id,v\n" + "".join(f"{at},{text}\n" for at, text in enumerate(texts))
        rows = [(str(at), value) for at, value in enumerate(values)]
        yield case(f"inferred: {name}", body, None, *rows, types=f"id long, v {kind}")


INFERRED: Final = (
    ("whole numbers", ["1", "-5"], "long", ["1", "-5"]),
    ("a plus", ["+1", "2"], "string", ["+1", "2"]),
    ("beyond 64 bits", ["9223372036854775808"], "decimal(19,0)", ["9223372036854775808"]),
    ("39 digits", ["1" * 39], "string", ["1" * 39]),
    ("15 digits", ["0.12345678901234"], "double", ["0.12345678901234"]),
    ("18 digits", ["1.12345678901234567"], "decimal(18,17)", ["1.12345678901234567"]),
    ("points", ["1.5", "2"], "double", ["1.5", "2.0"]),
    ("booleans", ["true", "false"], "boolean", ["true", "false"]),
    ("dates", ["2024-01-01", "1582-10-10"], "date", ["2024-01-01", "1582-10-10"]),
    ("moments", ["2024-01-01T10:30:00Z"], "timestamp", ["2024-01-01T10:30:00Z"]),
    ("times", ["10:30", "11:00"], "string", ["10:30", "11:00"]),
    ("mixed", ["1", "a"], "string", ["1", "a"]),
    ("only nulls", ["", ""], "string", [None, None]),
    ("long and null", ["1", ""], "long", ["1", None]),
    ("hexadecimal", ["0x10"], "string", ["0x10"]),
    ("an exponent with a letter behind", ["1d", "2f"], "string", ["1d", "2f"]),
    ("a decimal comma", ['"1,5"'], "string", ["1,5"]),
)
