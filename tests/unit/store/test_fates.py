"""The one list of what became of items and events: its order, its words of before, and the page that is made of it."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any, Final, get_args, get_type_hints

import pytest
from hypothesis import given
from hypothesis import strategies as st

from store import fates
from store.fates import (
    AT_A_JOB,
    BEFORE_ANY_JOB,
    HAS_LOADED,
    MEANINGS,
    MOVES_AT_JOBS,
    MOVES_OF_ITEMS,
    STAYING,
    WITHOUT_AN_EVENT,
    Fate,
    of_item,
    of_run,
    without_event,
)
from triggers.explanations import ItemState
from triggers.inventories import ListedItem
from watcher.features.reconcile.comparison import FOUND, SEVEREST_FIRST
from watcher.features.reconcile.routes import Differences

PAGE: Final = Path(__file__).parents[3] / "docs/states.md"
PARTS: Final = {
    "Items": [fates.table(BEFORE_ANY_JOB), "Without an event:", fates.table(WITHOUT_AN_EVENT)],
    "Events at a job": [fates.table(AT_A_JOB)],
}
"""The generated parts of the page, by section: they stand behind its picture."""
FIRST: Final = (Fate.FAILED, Fate.RUNNING, Fate.QUEUED, Fate.DROPPED, Fate.SUPERSEDED, Fate.LOADED)


@pytest.mark.parametrize("section", PARTS)
def test_the_page_is_made_of_the_list(section: str) -> None:
    page, generated = PAGE.read_text(encoding="utf-8"), "\n\n".join(PARTS[section])
    found = re.search(rf"(?s)## {section}\n\n[^\n]*\n\n!\[[^\n]*\n\n(\| .*?)\n\n(?:- |## )", page)
    assert found is not None
    if os.environ.get("WATCHER_TEST_WRITE_STATES") == "1":
        PAGE.write_text(page[: found.start(1)] + generated + page[found.end(1) :], encoding="utf-8")
    else:
        assert found[1] == generated, "WATCHER_TEST_WRITE_STATES=1 writes docs/states.md anew"


def test_each_fate_has_one_group_and_a_meaning() -> None:
    assert [*AT_A_JOB, *BEFORE_ANY_JOB, *WITHOUT_AN_EVENT] == [*Fate] == [*MEANINGS]


def test_each_fate_at_a_job_goes_on_or_has_loaded_or_stays_and_a_comparison_finds_it() -> None:
    built = {fate for fate in AT_A_JOB if not MEANINGS[fate].startswith("not built")}
    assert {Fate.QUEUED, Fate.RUNNING, Fate.NOT_TAKEN, Fate.SUPERSEDED, *HAS_LOADED, *STAYING} == built
    assert built - {Fate.LOADED, Fate.SUPERSEDED} <= {
        *FOUND
    }  # the newest version, which is compared, is not superseded


def test_each_fate_at_a_job_is_drawn_unless_nothing_comes_to_it() -> None:
    not_built = {fate for fate in Fate if MEANINGS[fate].startswith("not built")}
    assert {move.before for move in MOVES_AT_JOBS} - {None} <= {*AT_A_JOB}
    assert {move.after for move in MOVES_AT_JOBS} == {*AT_A_JOB} - not_built
    assert not not_built & {move.after for move in MOVES_OF_ITEMS}


@given(st.lists(st.sampled_from(AT_A_JOB), max_size=5))
def test_the_first_of_the_order_is_the_fate_of_the_item(at_jobs: list[Fate]) -> None:
    expected = next((fate for fate in (*FIRST, *Fate) if fate in at_jobs), Fate.REPORTED)
    assert of_item(at_jobs) is expected


@pytest.mark.parametrize("state", ["queued", "running", "success", "failed", "deleted"])
def test_each_state_of_a_run_means_a_fate_at_a_job(state: str) -> None:
    assert of_run(state) in AT_A_JOB
    assert (of_run(state) in HAS_LOADED) == (state == "success")


@pytest.mark.parametrize(
    ("place", "passed_before", "kept_since", "fate"),
    [
        (5, None, None, Fate.NOT_REPORTED),
        (5, 5, 5, Fate.NOT_REPORTED),
        (5, 6, 9, Fate.BEFORE_START),
        (5, 5, 6, Fate.PAST_RETENTION),
        (None, None, None, Fate.NOT_REPORTED),
        (None, None, 1, Fate.PAST_RETENTION),
        (None, 1, None, Fate.BEFORE_START),
    ],
)
def test_what_no_event_names_was_passed_over_or_forgotten_or_is_lost(
    place: int | None, passed_before: int | None, kept_since: int | None, fate: Fate
) -> None:
    assert without_event(place, passed_before=passed_before, kept_since=kept_since) is fate


def test_triggers_say_words_of_the_list() -> None:
    assert {*get_args(ItemState)} <= {*Fate}
    states: Any = get_args(get_type_hints(ListedItem)["state"])
    assert {*states} - {*Fate} == {"done", "young"}  # about a position, and not about what became of the item


def test_a_comparison_has_a_number_for_each_word_that_it_can_find_and_for_those_of_before() -> None:
    before = {*fates.WORDS_OF_RECONCILE_BEFORE.values()}
    assert {*Differences.model_fields} <= {*SEVEREST_FIRST, *before}
    assert before <= {*Differences.model_fields}
    assert {*FOUND} <= {*Differences.model_fields}
