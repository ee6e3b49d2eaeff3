"""The page for authors of triggers has every public name, whichever module defines it, and every method of the contract."""

from __future__ import annotations

from triggers import base, errors, options

NAMES = {
    "BaseConnection",
    "BaseEventTrigger",
    "BaseOptions",
    "ClientT",
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
METHODS = {"recognizes", "describe", "defaults", "open_shared", "rewound"}
METHODS_OF_POLLS = (
    METHODS | {"up_to"} | {"wake", "pause", "rest", "park", "unpark", "seconds_between_polls", "findings", "events"}
)


def test_every_public_name_is_on_the_page() -> None:
    assert vars(base).keys() >= NAMES
    assert base.Finding is errors.Finding
    assert base.BaseOptions is options.BaseOptions


def test_every_trigger_answers_what_a_host_may_ask() -> None:
    assert set(dir(base.BaseEventTrigger)) >= METHODS
    assert set(dir(base.IncrementalTrigger)) >= METHODS_OF_POLLS
