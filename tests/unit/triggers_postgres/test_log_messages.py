"""Messages that a PostgreSQL 16 sent for tables `t (id, note, big, m mood, at)` and `f (a, b)`, the latter with the identity FULL."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from triggers.changes.messages import (
    Begin,
    Commit,
    Message,
    PublishedRelation,
    RelationColumn,
    RowChange,
    Truncate,
    UnknownMessage,
    Unsent,
    decode,
)

T, F = 16389, 16396
RELATION_T = (
    "52000040057075626c69630074006400050169640000000014ffffffff006e6f74650000000019ffffffff006269670000000019ffffffff"
    "006d0000004001ffffffff00617400000004a0ffffffff"
)
RECORDED: list[tuple[str, Message | None]] = [
    (
        "4200000000014b4608000304289d5f6877000002db",
        Begin(commit=0x14B4608, time=datetime(2026, 11, 26, 8, 36, 55, 610487, UTC), xid=731),
    ),
    ("59000040017075626c6963006d6f6f6400", None),
    (
        RELATION_T,
        PublishedRelation(
            oid=T,
            schema="public",
            name="t",
            replica_identity="d",
            columns=[
                RelationColumn(name=name, type=oid, in_identity=name == "id")
                for name, oid in (("id", 20), ("note", 25), ("big", 25), ("m", 16385), ("at", 1184))
            ],
        ),
    ),
    (
        "49000040054e000574000000013174000000056772c3bc6e7400000834" + "78" * 2100 + "74000000026f6b"
        "7400000016323032362d31312d32302030393a30303a30302b3030",
        RowChange(op="insert", relation=T, new=["1", "grün", "x" * 2100, "ok", "2026-11-20 09:00:00+00"]),
    ),
    (
        "49000040054e00057400000001326e6e6e6e",
        RowChange(op="insert", relation=T, new=["2", None, None, None, None]),
    ),
    (
        "430000000000014b460800000000014b4638000304289d5f6877",
        Commit(commit=0x14B4608, end=0x14B4638),
    ),
    (
        "55000040054e00057400000001317400000001637574000000026f6b7400000016323032362d31312d32302030393a30303a30302b3030",
        RowChange(op="update", relation=T, new=["1", "c", Unsent.TOAST, "ok", "2026-11-20 09:00:00+00"]),
    ),
    (
        "55000040054b00057400000001326e6e6e6e4e00057400000001336e6e6e6e",
        RowChange(op="update", relation=T, new=["3", None, None, None, None], old=["2", None, None, None, None]),
    ),
    (
        "44000040054b00057400000001336e6e6e6e",
        RowChange(op="delete", relation=T, old=["3", None, None, None, None]),
    ),
    (
        "520000400c7075626c696300660066000201610000000017ffffffff01620000000019ffffffff",
        PublishedRelation(
            oid=F,
            schema="public",
            name="f",
            replica_identity="f",
            columns=[RelationColumn(name=name, type=oid, in_identity=True) for name, oid in (("a", 23), ("b", 25))],
        ),
    ),
    (
        "550000400c4f000274000000013174000000036f6e654e00027400000001316e",
        RowChange(op="update", relation=F, new=["1", None], old=["1", "one"]),
    ),
    ("440000400c4f00027400000001316e", RowChange(op="delete", relation=F, old=["1", None])),
    ("540000000203000040050000400c", Truncate(relations=[T, F])),
]


@pytest.mark.parametrize(("hexadecimal", "message"), RECORDED)
def test_a_recorded_message_is_decoded(hexadecimal: str, message: Message | None) -> None:
    assert decode(bytes.fromhex(hexadecimal)) == message


@pytest.mark.parametrize("hexadecimal", [text for text, message in RECORDED if message is not None])
def test_a_message_that_ends_early_or_late_is_refused(hexadecimal: str) -> None:
    data = bytes.fromhex(hexadecimal)
    for length in range(len(data)):
        with pytest.raises(UnknownMessage):
            decode(data[:length])
    with pytest.raises(UnknownMessage):
        decode(data + b"\0")


@pytest.mark.parametrize(
    "data",
    [
        b"S" + bytes(5),  # a large transaction that is streamed before its commit: protocol version 2
        b"b" + bytes(40),  # a prepared transaction
        b"I" + bytes.fromhex("00004005") + b"K" + bytes(2),
        b"D" + bytes.fromhex("00004005") + b"N" + bytes(2),
        b"I" + bytes.fromhex("00004005") + b"N" + bytes.fromhex("0001") + b"b" + bytes(4),  # in binary form
    ],
)
def test_what_was_not_asked_for_is_refused(data: bytes) -> None:
    with pytest.raises(UnknownMessage):
        decode(data)
