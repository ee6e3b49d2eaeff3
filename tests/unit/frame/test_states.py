"""States look alike wherever they are shown, and never by color alone."""

from __future__ import annotations

from typing import get_args

import pytest
from rich.cells import cell_len

from store.fates import Fate
from watcher.host.states import StateLook, known_states, look_of
from watcher.serving.api.filters import RunState, TaskState

WATCHERS = ("starting", "running", "unstable", "failing", "blocked", "waiting", "paused", "unassigned", "stopped")


def test_each_state_of_runs_tries_items_and_watchers_has_a_look() -> None:
    states = {*get_args(RunState), *get_args(TaskState), *map(str, Fate), *WATCHERS}
    assert states - known_states() == set()


def test_no_mark_has_two_colors_so_that_it_says_the_same_without_them() -> None:
    colors: dict[str, set[str]] = {}
    for look in map(look_of, known_states()):
        colors.setdefault(look.mark, set()).add(look.color)
    assert {mark: of_it for mark, of_it in colors.items() if len(of_it) > 1} == {}


@pytest.mark.parametrize("state", sorted(known_states()))
def test_a_mark_is_one_column_wide_and_a_word_has_no_underscore(state: str) -> None:
    look = look_of(state)
    assert cell_len(look.mark) == 1
    assert "_" not in look.word


def test_a_watcher_is_well_while_it_runs_and_a_run_goes_on() -> None:
    assert look_of("running", "watcher") == StateLook(color="good", mark="●", word="running")
    assert look_of("running").color == "busy"
    assert str(look_of("up_for_retry")) == "↻ up for retry"
    assert look_of("redelivery incomplete") == look_of("redelivery_incomplete")


def test_an_unknown_state_keeps_its_name() -> None:
    assert look_of("brand_new") == StateLook(color="calm", mark="·", word="brand new")
