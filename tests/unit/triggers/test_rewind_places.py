"""The places that a watcher's options say they know are places that a rewind takes."""

from __future__ import annotations

import pytest

from triggers.changes.options import ChangesOptions
from triggers.file_scan.options import FileOptions, start_of
from triggers.hosting import KnowsPlaces, RewindPlace
from triggers.postgres.options import NewRowsOptions, place_of_rewind

TIME = "2026-11-20T09:00:00Z"


def written(place: RewindPlace) -> str:
    """Return what a person who chooses the place sends."""
    return {"time": TIME, "item": place.example}.get(place.kind, place.kind)


@pytest.mark.parametrize(
    ("mode", "kinds"), [("id", ["start", "item", "now"]), ("updated_at", ["start", "time", "now"])]
)
def test_the_places_of_rows_are_those_of_their_mode(mode: str, kinds: list[str]) -> None:
    options = NewRowsOptions.model_construct(table="orders", mode=mode)
    assert isinstance(options, KnowsPlaces)
    assert [place.kind for place in options.rewind_places()] == kinds
    for place in options.rewind_places():
        place_of_rewind(written(place), mode)


def test_the_places_of_files_are_where_a_new_watcher_may_start_and_here() -> None:
    options = FileOptions.model_construct()
    assert isinstance(options, KnowsPlaces)
    places = options.rewind_places()
    assert [place.kind for place in places] == ["start", "time", "now", "here"]
    for place in places[:-1]:
        start_of(written(place))


def test_the_log_of_changes_knows_now_alone() -> None:
    options = ChangesOptions.model_construct(table="orders")
    assert isinstance(options, KnowsPlaces)
    assert [place.kind for place in options.rewind_places()] == ["now"]
