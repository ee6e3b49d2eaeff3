from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from triggers.file_scan.matching import Matcher


def matches(glob: str, key: str) -> bool:
    return Matcher.of(match=glob, regex=None)(key)


@pytest.mark.parametrize(
    ("glob", "yes", "no"),
    [
        ("*.json", ["a.json", ".json", "a b.json"], ["x/a.json", "a.jsonl", "a.json/", "ajson", "a.json\n"]),
        ("**/*.json", ["a.json", "x/a.json", "x/y/a.json"], ["a.jsonl", "x/a.json/"]),
        ("x/**/a", ["x/a", "x/y/a", "x/y/z/a"], ["a", "x/ya", "xx/a", "x/b"]),
        ("x/**", ["x/a", "x/y/a", "x/"], ["x", "y/x/a"]),
        ("**", ["a", "x/a", "x\ny"], []),
        ("a?c", ["abc", "a.c", "aüc"], ["ac", "a/c", "abbc"]),
        ("[a-c]*", ["a", "bx"], ["d", "", "x/a"]),
        ("[!a-c]", ["d", "-"], ["a", "/", "dd"]),
        ("[]]", ["]"], ["["]),
        ("a[", ["a["], ["a"]),
        ("a[]/x[0-9]", ["a[]/x1"], ["a1", "a]", "ax", "a[/x1"]),
        ("[!]/[ab]", ["[!]/a"], ["!", "x", "c", "!/a"]),
        ("[]x]", ["]", "x"], ["[]x]"]),
        ("[!]x]", ["a", "["], ["]", "x", "/"]),
        ("[+--]", ["+", ",", "-"], ["*", "."]),
        ("[--0]", ["-", ".", "0"], ["/", "1", ","]),
        ("[x-]", ["x", "-"], ["y"]),
        ("x**y", ["xy", "xzzy"], ["x/y"]),
        ("a.b+(c)|$", ["a.b+(c)|$"], ["axb+(c)|$"]),
        ("*", ["a", "a\nb"], ["a/b"]),
    ],
)
def test_globs(glob: str, yes: list[str], no: list[str]) -> None:
    assert [key for key in yes if not matches(glob, key)] == []
    assert [key for key in no if matches(glob, key)] == []


@pytest.mark.parametrize(
    ("glob", "literal", "depth"),
    [
        ("*.json", "", 0),
        ("2026/part-*.json", "2026/part-", 1),
        ("2026/**/*.json", "2026/", None),
        ("**", "", None),
        ("a/b/c", "a/b/c", 2),
        ("a/[xy]", "a/", 1),
        ("a?/b", "a", 1),
    ],
)
def test_the_literal_start_and_the_depth_narrow_the_listing(glob: str, literal: str, depth: int | None) -> None:
    matcher = Matcher.of(match=glob, regex=None)
    assert (matcher.literal, matcher.depth) == (literal, depth)


@given(st.text(alphabet="ab/*?[]!-.", max_size=8), st.text(alphabet="ab/.-!", max_size=8))
def test_a_match_starts_with_the_literal_and_is_no_deeper(glob: str, key: str) -> None:
    try:
        matcher = Matcher.of(match=glob, regex=None)
    except re.error:  # [b-a]
        return
    if matcher(key):
        assert key.startswith(matcher.literal)
        assert matcher.depth is None or key.count("/") <= matcher.depth


@given(st.text(max_size=10))
def test_a_glob_without_wildcards_matches_itself_alone(key: str) -> None:
    plain = re.sub(r"[*?\[]", "", key)
    assert matches(plain, plain)
    assert not matches(plain, plain + "x")


def test_a_regex_is_searched_for() -> None:
    matcher = Matcher.of(match=None, regex=r"part-\d+\.json$")
    assert matcher("x/part-12.json")
    assert not matcher("x/part-12.json.tmp")
    assert (matcher.literal, matcher.depth) == ("", None)


def test_without_a_pattern_everything_matches() -> None:
    assert Matcher.of(match=None, regex=None)("any/thing")
