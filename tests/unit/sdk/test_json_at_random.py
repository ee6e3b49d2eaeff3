"""Random files of JSON: the reader has the rows and bad records of a second, slow reading, which shares no code with it."""

from __future__ import annotations

import json
import os
import random
import re
from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from asset_job.errors import SourceInvalid
from asset_job.sources.json.inference import JsonInference
from asset_job.sources.options import ReadOptions
from tests.unit.sdk.in_memory import InMemory
from tests.unit.sdk.json_by_hand import ByHand, Outcome, read

EXAMPLES = int(os.environ.get("JSON_EXAMPLES", "300"))
KINDS = [
    pa.int64(),
    pa.int8(),
    pa.float64(),
    pa.string(),
    pa.bool_(),
    pa.decimal128(10, 2),
    pa.decimal128(38, 0),
    pa.list_(pa.int64()),
    pa.list_(pa.list_(pa.string())),
    pa.struct([("a", pa.string()), ("b", pa.float64())]),
    pa.list_(pa.struct([("a", pa.decimal128(5, 1))])),
    pa.map_(pa.string(), pa.int64()),
]
NUMBERS = [
    "0",
    "-0",
    "1",
    "-1",
    "1.0",
    "1.10",
    "007",
    "1e400",
    "-1E+5",
    "1e-400",
    "1e-77",
    "1.",
    ".5",
    "NaN",
    "Infinity",
]
NUMBERS += [
    "127",
    "128",
    "-128",
    "9223372036854775807",
    "9223372036854775808",
    "1234567890",
    "12345678.99",
    "0.1",
    "1.005",
]
NUMBERS += [
    "0." + "0" * 45 + "1",
    "1" + "0" * 45,
    "1" + "0" * 400,
    "1e9",
    "5e-324",
    "0.05e-39",
    "+1",
    "0e-99999999",
    "1e2",
]
TEXTS = [
    "",
    "a",
    " 1 ",
    "é😀",
    "\\u00e9",
    "\\ud83d\\ude00",
    "\\ud800",
    "\\udc00",
    '\\n\\\\\\"',
    "\\u0000",
    "true",
    "T",
    "\\q",
]
TEXTS += ["1e-77", "\\u0031e-77", "\x7f", "{", "]", ",", "\\u000", "NaN", ":NaN", "2024-01-01", "\\/", "\\uD83D\\uD83D"]
WHITE = ["", "", "", " ", "\t", "\n", "\r\n", "\r", "  "]
DAMAGE = [
    *'{}[],:"\\ \n\r\t0e-.tn',
    "null",
    "true",
    "\x00",
    "\x01",
    "\ufeff",
    "x",
    '"a"',
    "NaN",
    "}{",
    "\n{",
    "é",
    "//",
]


def scalar(dice: random.Random) -> str:
    kind = dice.randrange(8)
    if kind < 4:
        return dice.choice(NUMBERS) if kind < 2 else str(dice.randint(-300, 300))
    return '"' + dice.choice([*TEXTS, *NUMBERS]) + '"' if kind < 7 else dice.choice(["true", "false", "null"])


def printed(dice: random.Random, blank: list[str], kind: pa.DataType | None = None, depth: int = 0) -> str:
    """A value in random spelling, mostly of the type."""

    def space() -> str:
        return dice.choice(blank)

    if kind is None or dice.random() < 0.05:
        roll = dice.randrange(8 if depth < 3 else 6)
        kind = {6: pa.list_(pa.int64()), 7: pa.struct([("a", pa.string())])}.get(roll)
    if dice.random() < 0.05:
        return "null"
    if kind is None:
        return scalar(dice)
    if pa.types.is_list(kind):
        items = [printed(dice, blank, kind.value_type, depth + 1) for _ in range(dice.randrange(4))]
        return "[" + ",".join(space() + item + space() for item in items) + (space() if not items else "") + "]"
    if pa.types.is_struct(kind) or pa.types.is_map(kind):
        fields = list(kind) if pa.types.is_struct(kind) else [pa.field(name, kind.item_type) for name in "xyz"]
        pairs = [(each.name, printed(dice, blank, each.type, depth + 1)) for each in fields if dice.random() < 0.8]
        if dice.random() < 0.1:
            pairs.append((dice.choice(["other", "a", "x", "", "\\u0061"]), printed(dice, blank, None, depth + 1)))
        dice.shuffle(pairs)
        return "{" + ",".join(f'{space()}"{name}"{space()}:{space()}{item}{space()}' for name, item in pairs) + "}"
    return fit(dice, kind)


def fit(dice: random.Random, kind: pa.DataType) -> str:
    if dice.random() < 0.1:
        return scalar(dice)
    if pa.types.is_boolean(kind):
        return dice.choice(["true", "false"])
    if pa.types.is_string(kind):
        return json.dumps(dice.choice(["plain", "é", 'a"b', "two\nlines", "x" * 60]), ensure_ascii=dice.random() < 0.5)
    number = dice.randint(-100, 100)
    return str(number) if not pa.types.is_floating(kind) else f"{number}.{dice.randrange(100)}"


def random_file(dice: random.Random, columns: pa.Schema) -> bytes:
    blank = dice.choice([[""], ["", " "], WHITE])
    row = pa.struct(list(columns))
    if dice.random() < 0.4:  # lines of which Arrow reads most
        parts = ["{}", *(printed(dice, blank[:2], row) for _ in range(dice.choice([1, 1, 2, 3])))]
        if dice.random() < 0.3:
            parts.insert(1, parts.pop() + dice.choice([" ", ""]) + dice.choice(["null", "{}", "1", "\ufeff", "\0"]))
        return (dice.choice(["\n", "\r\n"]).join(parts) + dice.choice(["", "\n"])).encode()
    ends = dice.choice([["\n"], ["\r\n"], ["\r"], ["", "\n", " ", "\n\n"], ["\n", "\n", "\n", " \n ", ""]])
    parts = []
    for _ in range(dice.choice([0, 1, 2, 3, 8, 40])):
        if dice.random() < 0.1:
            items = [printed(dice, blank, row) for _ in range(dice.randrange(4))]
            parts.append("[" + ",".join(items) + "]")
        else:
            parts.append(printed(dice, blank, row))
        parts.append(dice.choice(ends))
    text = "".join(parts)
    if dice.random() < 0.2:
        text = "[" + dice.choice(WHITE) + ",\n".join(part for part in parts if part.strip()) + "]"
    for _ in range(dice.choice([0, 0, 0, 1, 1, 2, 5])):
        at = dice.randint(0, len(text))
        text = text[:at] + dice.choice(["", dice.choice(DAMAGE)]) + text[at + dice.randrange(3) :]
    body = text.encode()
    if dice.random() < 0.1:
        at = dice.randint(0, len(body))
        body = body[:at] + dice.choice([b"\xff", b"\xc3", b"\xed\xa0\x80", b"\xf0\x9f"]) + body[at:]
    return body[: dice.randint(0, len(body))] if dice.random() < 0.1 else body


def exact(outcome: Outcome) -> Any:
    """An outcome in which 0 differs from -0, and NaN equals itself."""
    return repr(outcome[0]), sorted(outcome[1])


@given(seed=st.integers(0, 2**64))
@settings(max_examples=EXAMPLES)
def test_random_files_are_read_as_by_hand(seed: int) -> None:
    dice = random.Random(seed)
    columns = pa.schema(
        [(name, kind) for name, kind in zip("abcde", dice.sample(KINDS, dice.randint(1, 4)), strict=False)]
    )
    body = random_file(dice, columns)
    text = body.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "surrogateescape")
    expected = ByHand(text, columns).outcome()
    assert exact(read(body, columns, seed=seed, largest=dice.choice([1, 9, 1000]))) == exact(expected), body


def arrow_kind(ddl: str) -> pa.DataType:
    """The type that an inferred name of a type means."""
    if inner := re.fullmatch(r"(?s)array<(.*)>", ddl):
        return pa.list_(arrow_kind(inner[1]))
    if inner := re.fullmatch(r"(?s)struct<(.*)>", ddl):
        return pa.struct(fields_of(inner[1], ": "))
    if inner := re.fullmatch(r"decimal\((\d+),(\d+)\)", ddl):
        return pa.decimal128(int(inner[1]), int(inner[2]))
    return {"string": pa.string(), "bigint": pa.int64(), "double": pa.float64(), "boolean": pa.bool_()}[ddl]


def fields_of(ddl: str, between: str) -> list[tuple[str, pa.DataType]]:
    fields, depth, begin = [], 0, 0
    bare = re.sub("`(?:[^`]|``)*`", lambda name: "_" * len(name[0]), ddl) + ","
    for at, character in enumerate(bare):
        depth += {"<": 1, "(": 1, ">": -1, ")": -1}.get(character, 0)
        if character == "," and depth == 0:
            middle = bare.index(between, begin + 1)
            fields.append(
                (ddl[begin:middle].strip()[1:-1].replace("``", "`"), arrow_kind(ddl[middle + len(between) : at]))
            )
            begin = at + 1
    return fields


@given(seed=st.integers(0, 2**64))
@settings(max_examples=EXAMPLES)
def test_inferred_columns_read_every_value_without_loss(seed: int) -> None:
    dice = random.Random(seed)
    kinds = [*KINDS[:-1], pa.struct([("c", pa.list_(pa.bool_())), ("d", pa.float64())])]
    columns = pa.schema(
        [(name, kind) for name, kind in zip("abcde", dice.sample(kinds, dice.randint(1, 4)), strict=False)]
    )
    text = random_file(dice, columns).removeprefix(b"\xef\xbb\xbf").decode("utf-8", "surrogateescape")
    inference = JsonInference(options=ReadOptions())
    half = text.find("\n", len(text) // 2) + 1
    bodies = [part.encode("utf-8", "surrogateescape") for part in (text[:half], text[half:])]
    try:
        ddl = inference.schema([inference.inferred(InMemory(body, seed)) for body in bodies])
    except SourceInvalid:
        return
    inferred = pa.schema(fields_of(ddl, " "))
    for body in bodies:
        by_hand = ByHand(body.decode("utf-8", "surrogateescape"), inferred)
        expected = by_hand.outcome()
        assert exact(read(body, inferred, seed=seed, largest=1000)) == exact(expected), (body, ddl)
        assert by_hand.unfit == 0, (body, ddl)
