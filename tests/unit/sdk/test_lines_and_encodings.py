"""Lines of text, and texts in any encoding, in pieces of any size."""

from __future__ import annotations

import pyarrow as pa
import pytest

from asset_job.sources.lines import LinesParser
from asset_job.sources.options import ReadOptions
from asset_job.sources.records import BadRecord
from asset_job.sources.texts.encodings import decoded, is_utf8
from tests.unit.sdk.in_memory import InMemory


def outcome(body: bytes, seed: int, **options: str) -> list[str | BadRecord]:
    parser = LinesParser(columns=pa.schema([("value", pa.string())]), options=ReadOptions.of("text", options))
    rows: list[str | BadRecord] = []
    for parsed in parser.parse(InMemory(body, seed)):
        rows += [parsed] if isinstance(parsed, BadRecord) else parsed.column(0).to_pylist()
    return rows


@pytest.mark.parametrize("seed", range(20))
def test_lines_end_as_they_end_wherever_the_pieces_do(seed: int) -> None:
    assert outcome(b"one\r\n\r\ntwo\rthree\n\nfour", seed) == ["one", "", "two", "three", "", "four"]
    assert outcome(b"one\n", seed) == ["one"]
    assert outcome(b"\n", seed) == [""]
    assert outcome(b"", seed) == []
    assert outcome(b"a\r", seed) == ["a"]
    assert outcome("ä||b||||c\n".encode(), seed, lineSep="||") == ["ä", "b", "", "c\n"]
    assert outcome("Zürich\nß".encode("latin-1"), seed, encoding="ISO-8859-1") == ["Zürich", "ß"]


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-32"])
def test_a_byte_order_mark_tells_the_encoding_and_is_no_text(seed: int, encoding: str) -> None:
    assert outcome("ü😀\nb".encode(encoding), seed) == ["ü😀", "b"]


@pytest.mark.parametrize("seed", range(20))
def test_bytes_that_are_no_text_make_their_line_bad(seed: int) -> None:
    [one, bad, three] = outcome(b"one\nZ\xfcrich\nthree", seed)
    assert (one, three) == ("one", "three")
    assert bad == BadRecord(record="Z\\xfcrich", at="line 2", reason="it holds bytes that are no text in its encoding")
    assert isinstance(outcome("a\nb".encode("utf-16") + b"\x00", seed)[1], BadRecord), "half a character"


@pytest.mark.parametrize("body", [b"\xff\xfe\x00\xd8a\x00", b"\xff\xfea", b"\xef\xbb\xbf\xff"])
def test_no_replacement_character_stands_for_what_is_no_text(body: bytes) -> None:
    text = b"".join(decoded([body], None))
    assert not is_utf8(text)
    assert "�".encode() not in text


def test_utf_16_without_a_mark_is_big_endian() -> None:
    assert b"".join(decoded(["ab".encode("utf-16-be")], "UTF-16")) == b"ab"
    assert b"".join(decoded(["ab".encode("utf-16")], "UTF-16LE")) == b"ab"
