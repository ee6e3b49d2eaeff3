"""The page for authors of triggers has every public name, whichever module defines it, and the contract is what it was counted as."""

from __future__ import annotations

from typing import Any

import pytest

from triggers import base, errors, options
from triggers.cleaning import Cleans
from triggers.explanations import Explains
from triggers.hosting import Parks, Polls, Reselects, RestingTrigger, Retells, SharesPolls, Surveys, Wakes
from triggers.inventories import Lists
from triggers.local_folder.new_files import FileNewFiles
from triggers.postgres.new_rows import NewRows
from triggers.s3.new_files import S3NewFiles

NAMES = {
    "BaseConnection",
    "BaseEventTrigger",
    "BaseOptions",
    "ClientT",
    "Facts",
    "Finding",
    "IncrementalTrigger",
    "JsonObject",
    "JsonValue",
    "OptionsT",
    "Position",
    "RejectedItem",
    "RowChanges",
    "StoredPosition",
    "TriggerBatch",
    "TriggerContext",
    "TriggerEvent",
    "refuse_errors",
}
CONTRACT = {
    "Options",
    "check",
    "connection_type",
    "defaults",
    "describe",
    "events",
    "format",
    "open_shared",
    "recognizes",
    "rewound",
    "source_identity",
}
OF_POLLS = {"findings", "interval", "poll", "up_to", "wake"}
PAUSING = {"park", "pause", "rest", "seconds_between_polls", "unpark"}
"""What a trigger that polls brings along for its pauses. Authors may call or override it."""

OF_FILES: set[type] = {Polls, Wakes, Parks, SharesPolls, Retells, Reselects, Surveys, Explains, Lists, Cleans}
"""Every ability there is: triggers of files have them all."""


class Plain(base.BaseEventTrigger[Any, Any]):
    """A trigger with nothing but the contract."""


def names_of(of: type) -> set[str]:
    annotated = {name for each in of.__mro__ for name in vars(each).get("__annotations__", ())}
    return {name for name in {*dir(of), *annotated} if not name.startswith("_")}


def test_every_public_name_is_on_the_page() -> None:
    assert vars(base).keys() >= NAMES
    assert base.Finding is errors.Finding
    assert base.BaseOptions is options.BaseOptions
    assert base.Facts is options.Facts


def test_the_contract_of_a_trigger_is_sixteen_names() -> None:
    assert names_of(base.BaseEventTrigger) == CONTRACT
    assert names_of(base.IncrementalTrigger) == CONTRACT | OF_POLLS | PAUSING
    assert names_of(RestingTrigger) == PAUSING | {"wake"}
    assert len(CONTRACT | OF_POLLS) == 16


@pytest.mark.parametrize(
    ("trigger", "abilities"),
    [
        (Plain, set()),
        (base.IncrementalTrigger, {Polls, Wakes, Parks}),
        (FileNewFiles, OF_FILES),
        (S3NewFiles, OF_FILES),
        (NewRows, {Polls, Wakes, Parks, SharesPolls, Retells, Explains, Lists}),
    ],
)
def test_a_class_has_the_abilities_whose_methods_it_has(trigger: type, abilities: set[type]) -> None:
    assert {ability for ability in OF_FILES if names_of(ability) <= names_of(trigger)} == abilities
