"""Property files mean here what they mean to `java.util.Properties`: its manual page has most of the cases, and Java itself gave
the others."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from config.models.spark import read_properties, write_properties


@pytest.mark.parametrize(
    ("key", "value", "line"),
    [
        ("spark.a", "b", "spark.a=b\n"),
        ("spark.a", "C:\\x=y: z#!", "spark.a=C\\:\\\\x\\=y\\: z\\#\\!\n"),
        ("spark.a", " first\nsecond\t.", "spark.a=\\ first\\nsecond\\t.\n"),
        ("odd key:=#!", "ü", "odd\\ key\\:\\=\\#\\!=\\u00fc\n"),
    ],
)
def test_properties_are_written_as_java_reads_them(key: str, value: str, line: str) -> None:
    assert write_properties({key: value}) == line


@pytest.mark.parametrize(
    ("text", "properties"),
    [
        ("spark.a b\nspark.c=d\nspark.e : f", {"spark.a": "b", "spark.c": "d", "spark.e": "f"}),
        ("  # no entry\n! nor this\n\n\tspark.a=b  ", {"spark.a": "b"}),
        ("fruits  apple, banana, \\\n   pear, \\\n   # cherry", {"fruits": "apple, banana, pear, # cherry"}),
        ("a=b\\\\\nc=d", {"a": "b\\", "c": "d"}),
        ("a\\:b\\ c=\\u0041\\tz", {"a:b c": "A\tz"}),
        ("cheeses", {"cheeses": ""}),
        ("a=1\r\na=2\rb=3", {"a": "2", "b": "3"}),
        ("a=b\\", {"a": "b"}),
        ("\\\n# no comment", {"#": "no comment"}),
        ("a=\\ud83d\\ude00", {"a": "\N{GRINNING FACE}"}),
        (" \\ a = \\ b ", {" a": "b"}),
    ],
)
def test_properties_are_read_as_java_reads_them(text: str, properties: dict[str, str]) -> None:
    assert read_properties(text) == properties


def test_an_escape_that_java_refuses_is_refused() -> None:
    with pytest.raises(UnicodeError, match="without four hexadecimal digits"):
        read_properties("a=C:\\users")


@given(st.dictionaries(st.text(min_size=1), st.text()))
def test_what_is_written_is_read(properties: dict[str, str]) -> None:
    assert read_properties(write_properties(properties)) == {
        key: value.strip(" \t\f") for key, value in properties.items()
    }
