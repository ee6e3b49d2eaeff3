"""Whether `where` gives the same answer about a row whenever it is asked, by the plan that PostgreSQL makes of it (pure)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Self, TypeAlias

Plan: TypeAlias = Mapping[str, Any]

_CLOCKS: Final = {"now", "transaction_timestamp", "statement_timestamp", "clock_timestamp", "timeofday"}
_AGES: Final = {"age", "mxid_age"}
_NAME: Final = r'(?:"(?:[^"]|"")+"|[a-z_][a-z0-9_]*)'
_TOKEN: Final = re.compile(
    rf"""(?P<text>'(?:[^']|'')*')
    |(?P<type>::(?:double\ precision|(?:character|bit)\ varying|interval(?:\ [a-z]+)*|{_NAME}(?:\.{_NAME})*)(?:\([^()]*\))?)
    |(?P<clock>\b(?:CURRENT_DATE|CURRENT_TIMESTAMP|CURRENT_TIME|LOCALTIMESTAMP|LOCALTIME)\b)
    |OPERATOR\((?P<far>{_NAME}\.[^\s()]+)\)
    |(?P<call>{_NAME}(?:\.{_NAME})*)\(
    |(?P<word>"(?:[^"]|"")+"|[\w$]+)
    |(?P<operator>[-+*/<>=~!@#%^&|`?]+)
    |(?P<mark>[()\[\],])""",
    re.VERBOSE,
)
"""The parts of an expression as PostgreSQL writes it. A function's name stands at its bracket; a keyword is in capitals."""

_WORD_OF_THE_CLOCK: Final = re.compile(r"'\s*(now|today|tomorrow|yesterday)\s*'", re.IGNORECASE)


@dataclass(frozen=True, kw_only=True)
class Expressions:
    """What the expressions of a plan use: functions with their numbers of arguments, and operators, as PostgreSQL writes them."""

    calls: Sequence[tuple[str, int]]
    operators: Sequence[str]
    reason: str | None
    """Why the condition changes its answer, if that is clear from the plan alone."""

    @classmethod
    def of(cls, plan: Plan, where: str) -> Self:
        """Read the plan of a statement whose output is the condition."""
        outputs = [str(text) for node in _nodes(plan) for text in node.get("Output", ())]
        parts = [list(_TOKEN.finditer(text)) for text in outputs]
        tokens = [token for tokens in parts for token in tokens]
        calls = {call for tokens in parts for call in _calls(tokens)}
        clocks = [*_clocks(tokens, calls), *_turned_into_times(where, outputs)]
        return cls(
            calls=sorted(calls),
            operators=sorted({name for token in tokens if (name := token["far"] or token["operator"])}),
            reason="it reads other rows"
            if _reads_more(plan)
            else f"{clocks[0]} depends on the clock"
            if clocks
            else None,
        )


def _clocks(tokens: Sequence[re.Match[str]], calls: Iterable[tuple[str, int]]) -> list[str]:
    names = [token["clock"] for token in tokens if token["clock"]]
    names += sorted(f"{name}()" for name, _ in calls if name in _CLOCKS)
    return names + [f"{name} of one argument" for name, number in calls if name in _AGES and number == 1]


def _reads_more(plan: Plan) -> bool:
    return any(node.get("Parent Relationship") in ("SubPlan", "InitPlan") for node in _nodes(plan))


def _nodes(plan: Plan) -> Iterator[Plan]:
    yield plan
    for part in plan.get("Plans", ()):
        yield from _nodes(part)


def _calls(tokens: Sequence[re.Match[str]]) -> Iterator[tuple[str, int]]:
    return ((token["call"], _arguments(tokens[place + 1 :])) for place, token in enumerate(tokens) if token["call"])


def _arguments(rest: Iterable[re.Match[str]]) -> int:
    """Count the arguments of a call by the tokens behind its opening bracket."""
    depth, commas, is_empty = 1, 0, True
    for token in rest:
        mark = token["mark"] or ""
        depth += (mark in ("(", "[") or bool(token["call"])) - (mark in (")", "]"))
        if not depth:
            break
        commas += mark == "," and depth == 1
        is_empty = False
    return 0 if is_empty else commas + 1


def _turned_into_times(where: str, outputs: Sequence[str]) -> list[str]:
    """Return the words that PostgreSQL replaced by the time of the statement: those that are not in the plan as text."""
    left = re.findall(r"\w+", " ".join(outputs).lower())
    words = [match[1].lower() for match in _WORD_OF_THE_CLOCK.finditer(where)]
    return [f"'{word}'" for word in words if word not in left]
