"""The pictures of states agree with the modules that hold the states, and docs/states.md shows each with its title."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
import states

from store.fates import RUN_STATES, Move
from store.runs.runs import MOVES_OF_RUNS
from watcher.features.partitions.waiting import MOVES_OF_PARTITIONS

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("name", states.PICTURES)
def test_the_picture_is_drawn_from_the_moves(name: str) -> None:
    title, moves = states.PICTURES[name]
    assert (ROOT / name).read_text(encoding="utf-8") == states.drawn(title, moves), (
        "python -m tools.states draws it anew"
    )
    page = (ROOT / "docs/states.md").read_text(encoding="utf-8")
    assert f"![{title}]({name.removeprefix('docs/')})" in page


@pytest.mark.parametrize("name", states.PICTURES)
def test_a_picture_has_each_state_and_reason_inside_it_and_no_two_moves_share_a_line(name: str) -> None:
    title, moves = states.PICTURES[name]
    picture = ET.fromstring(states.drawn(title, moves))  # noqa: S314  ours
    _, _, width, height = map(float, picture.attrib["viewBox"].split())
    texts = [each for each in picture if each.tag.endswith("text")]
    assert sorted(str(each.text) for each in texts) == sorted(
        [*states.columns(moves), *(move.because for move in moves)]
    )
    for text in texts:
        half = len(str(text.text)) * states.LETTER / 2
        assert half <= float(text.attrib["x"]) <= width - half
        assert 0 < float(text.attrib["y"]) < height
    lines = [each.attrib["d"] for each in picture if each.tag.endswith("path")]
    assert len(set(lines)) == len(moves)


def test_each_state_of_a_run_is_reached_and_left_but_for_the_last() -> None:
    assert {move.after for move in MOVES_OF_RUNS} == {*RUN_STATES}
    assert {*RUN_STATES} - {move.before for move in MOVES_OF_RUNS} == {"deleted"}


def test_each_state_of_a_partition_leads_to_a_run() -> None:
    reached = {"running"}
    for _ in MOVES_OF_PARTITIONS:
        reached |= {str(move.before) for move in MOVES_OF_PARTITIONS if move.after in reached}
    assert {str(move.after) for move in MOVES_OF_PARTITIONS} <= reached


def test_moves_that_lead_over_each_other_have_lines_of_their_own() -> None:
    moves = [
        Move(None, "a", "x" * 40),
        Move("a", "b", "y" * 40),
        Move("a", "c", "z"),
        Move("c", "a", "back"),
        Move("b", "a", "b"),
    ]
    picture = ET.fromstring(states.drawn("A picture", moves))  # noqa: S314  ours
    places = [(each.attrib["x"], each.attrib["y"]) for each in picture if each.tag.endswith("text")]
    assert len(set(places)) == len(places)
    assert len({y for _, y in places}) == 6
