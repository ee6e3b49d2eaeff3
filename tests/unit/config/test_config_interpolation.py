from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from config.reading.interpolation import Interpolation

ENVIRON = {"NAME": "value", "EMPTY": "", "TRICKY": "${NAME} $$ \\1"}


@pytest.fixture
def interpolation(tmp_path: Path) -> Interpolation:
    (tmp_path / "secret").write_text("line\n\n")
    return Interpolation(ENVIRON, tmp_path)


@pytest.mark.parametrize(
    ("text", "expanded"),
    [
        ("plain", "plain"),
        ("${NAME}", "value"),
        ("a-${NAME}-b${NAME}", "a-value-bvalue"),
        ("${NAME:-default}", "value"),
        ("${OTHER:-default}", "default"),
        ("${EMPTY:-default}", "default"),
        ("${EMPTY}", ""),
        ("${OTHER:-}", ""),
        ("${OTHER:-a:-b$}", "a:-b$"),
        ("${file:secret}", "line"),
        ("$$", "$"),
        ("$${NAME}", "${NAME}"),
        ("$$${NAME}", "$value"),
        ("^a$", "^a$"),
        ("$NAME $1", "$NAME $1"),
        ("${TRICKY}", ENVIRON["TRICKY"]),
    ],
)
def test_references_are_replaced(interpolation: Interpolation, text: str, expanded: str) -> None:
    assert interpolation.expand(text) == expanded
    assert interpolation.problems == []


@pytest.mark.parametrize("text", ["${", "${}", "${A B}", "${1}", "${NAME:+x}", "${OTHER:-${NAME}}", "${file:}"])
def test_a_malformed_reference_is_a_problem(interpolation: Interpolation, text: str) -> None:
    interpolation.expand(text)
    assert [sentence.split(":")[0] for _, sentence in interpolation.problems] == ["`${` does not begin a reference"]


def test_each_unresolved_reference_is_a_problem_with_its_path(interpolation: Interpolation) -> None:
    interpolation.expand({"a": ["${ONE} ${TWO}", {"b": "${file:none}"}], "c": 5, "${KEY}": None})
    assert [path for path, _ in interpolation.problems] == [("a", 0), ("a", 0), ("a", 1, "b")]


def test_a_file_that_is_not_text_is_a_problem(interpolation: Interpolation, tmp_path: Path) -> None:
    (tmp_path / "binary").write_bytes(b"\xff")
    interpolation.expand("${file:binary}")
    assert interpolation.problems == [
        ((), "the file binary cannot be read (it is not UTF-8 text); create it or correct the path")
    ]


TREES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


def _escaped(value: object) -> object:
    if isinstance(value, dict):
        return {key: _escaped(member) for key, member in value.items()}
    if isinstance(value, list):
        return [_escaped(member) for member in value]
    return value.replace("$", "$$") if isinstance(value, str) else value


@given(TREES)
def test_an_escaped_text_is_restored(tree: Any) -> None:
    interpolation = Interpolation({}, Path())
    assert interpolation.expand(_escaped(tree)) == tree
    assert interpolation.problems == []


@given(st.text().filter(lambda text: "\0" not in text))
def test_a_value_from_outside_is_not_expanded_again(value: str) -> None:
    assert Interpolation({"X": value}, Path()).expand("${X}") == value


@given(st.text(st.characters(categories=["L", "N"]), min_size=4), st.text("$ {}`", max_size=5))
def test_a_value_from_outside_is_hidden_in_messages_about_its_place(value: str, around: str) -> None:
    interpolation = Interpolation({"X": value}, Path())
    interpolation.expand("${X}", ("assets", "a", "uri"))
    sentence = f"{around}{value}{around}"
    assert interpolation.hide(sentence, ("assets", "a")) == f"{around}${{X}}{around}"
    assert interpolation.hide(sentence, ("assets", "b")) == sentence
