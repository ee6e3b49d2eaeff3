from __future__ import annotations

import json
from typing import Any

from triggers.base import TriggerEvent
from triggers.postgres.by_id.names import IdRanges
from triggers.postgres.by_update.names import PrimaryKeys
from triggers.postgres.options import NewRowsOptions
from triggers.postgres.reading.batches import events_of
from triggers.shared.postgres.values import ValueType

WATERMARK = {"from": 10, "to": 19}


def options(**values: object) -> NewRowsOptions:
    return NewRowsOptions.model_validate({"table": "public.orders", **values})


class Row(dict[str, Any]):
    """A row as the driver returns it, with values by name and by place."""

    def __getitem__(self, key: Any) -> Any:
        return [*self.values()][key] if isinstance(key, int) else super().__getitem__(key)


def events_by_id(rows: list[Row], options: NewRowsOptions) -> list[TriggerEvent]:
    return [*events_of(IdRanges, rows, options, WATERMARK)]


def test_ids_become_ranges_whose_sizes_are_the_count() -> None:
    rows = [Row(id=number) for number in (11, 12, 14, 17, 18, 19)]

    assert events_by_id(rows, options()) == [
        TriggerEvent(
            count=6,
            watermark=WATERMARK,
            payload={"table": "public.orders", "column": "id", "ranges": [[11, 12], [14, 14], [17, 19]]},
        )
    ]


def test_events_are_bounded() -> None:
    rows = [Row(id=number, row=f'{{"id":{number}}}') for number in (11, 12, 13, 15, 16)]
    events = events_by_id(rows, options(columns=["id"], batch={"max_rows": 2}))

    payloads: list[Any] = [event.payload for event in events]
    assert [event.count for event in events] == [2, 2, 1]
    assert [payload["ranges"] for payload in payloads] == [[[11, 12]], [[13, 13], [15, 15]], [[16, 16]]]
    assert [row["id"] for payload in payloads for row in payload["rows"]] == [11, 12, 13, 15, 16]


def test_keys_are_reported_as_values_or_lists_of_values() -> None:
    rows = [Row(key=text) for text in ("7", '"a"', '[1, "b"]')]
    [event] = events_of(PrimaryKeys, rows, options(mode="updated_at"), WATERMARK)

    payload: Any = event.payload
    assert payload == {"table": "public.orders", "column": "updated_at", "keys": [7, "a", [1, "b"]]}


def test_numbers_beyond_floats_stay_text() -> None:
    row = Row(id=1, row=f'{{"a": [1, 2.5, 1e999, -1e999], "b": null, "c": {"9" * 5000}}}')
    [event] = events_by_id([row], options(columns=["a"]))

    payload: Any = event.payload
    assert payload["rows"] == [{"a": [1, 2.5, "1e999", "-1e999"], "b": None, "c": "9" * 5000}]


def test_a_negative_zero_keeps_its_sign() -> None:
    row = Row(id=1, row='{"a": -0, "b": [-0, 0], "c": {"d": -0}}')
    types = {"c": ValueType(fields={"d": ValueType(), "e": ValueType(is_numeric=True)})}
    for known in ({}, types):
        [event] = events_of(IdRanges, [row], options(columns=["a"]), WATERMARK, known)
        assert json.dumps(event.payload["rows"]) == '[{"a": -0.0, "b": [-0.0, 0], "c": {"d": -0.0}}]'


def test_a_poll_without_rows_makes_no_event() -> None:
    assert events_by_id([], options()) == []
