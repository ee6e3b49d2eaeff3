from __future__ import annotations

from typing import Any

from triggers.base import TriggerEvent
from triggers.postgres.options import NewRowsOptions
from triggers.postgres.rows import DetectedRows, events_by_id, events_by_key

WATERMARK = {"from": 10, "to": 19}


def options(**values: object) -> NewRowsOptions:
    return NewRowsOptions.model_validate({"table": "public.orders", **values})


def test_ids_become_ranges_whose_sizes_are_the_count() -> None:
    found = DetectedRows(keys=[11, 12, 14, 17, 18, 19], rows=[])

    assert list(events_by_id(found, options(), WATERMARK)) == [
        TriggerEvent(
            count=6,
            watermark=WATERMARK,
            payload={"table": "public.orders", "column": "id", "ranges": [[11, 12], [14, 14], [17, 19]]},
        )
    ]


def test_events_are_bounded() -> None:
    found = DetectedRows(
        keys=[11, 12, 13, 15, 16], rows=['{"id":11}', '{"id":12}', '{"id":13}', '{"id":15}', '{"id":16}']
    )
    events = list(events_by_id(found, options(columns=["id"], batch={"max_rows": 2}), WATERMARK))

    payloads: list[Any] = [event.payload for event in events]
    assert [event.count for event in events] == [2, 2, 1]
    assert [payload["ranges"] for payload in payloads] == [[[11, 12]], [[13, 13], [15, 15]], [[16, 16]]]
    assert [row["id"] for payload in payloads for row in payload["rows"]] == [11, 12, 13, 15, 16]


def test_keys_are_values_or_lists_of_values() -> None:
    [event] = events_by_key(DetectedRows(keys=["7", '"a"', '[1, "b"]'], rows=[]), options(mode="updated_at"), WATERMARK)

    payload: Any = event.payload
    assert payload == {"table": "public.orders", "column": "updated_at", "keys": [7, "a", [1, "b"]]}


def test_numbers_beyond_floats_stay_text() -> None:
    found = DetectedRows(keys=[1], rows=[f'{{"a": [1, 2.5, 1e999, -1e999], "b": null, "c": {"9" * 5000}}}'])
    [event] = events_by_id(found, options(columns=["a"]), WATERMARK)

    payload: Any = event.payload
    assert payload["rows"] == [{"a": [1, 2.5, "1e999", "-1e999"], "b": None, "c": "9" * 5000}]


def test_nothing_found_is_no_event() -> None:
    assert list(events_by_id(DetectedRows(keys=[], rows=[]), options(), WATERMARK)) == []
