"""The `where` of a reference in a schedule: what an event must say so that the job gets it.

where: {extra.region: eu, extra.kind: [order, refund]}
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from config.errors import KeyPath

MOST_IN_A_SCHEDULE: Final = 100
"""The most references with `where` in one schedule."""
_OPERATOR: Final = re.compile(
    r"\s*(?P<sign>[<>=!]=+|<>|[=!]~|[<≤≥>]|=|!|~(?!/))\s*[^\s<>=!~]"
    r"|\s*(?P<word>(?:not +)?in(?=\s*[(\[])|(?:not +)?between(?=\s.+\sand\s)|(?:not +)?i?like(?=\s+['\"%]))",
    re.IGNORECASE,
)
"""A text that begins as a comparison. A placeholder such as `<none>` is none."""
_COMPARED_PATH: Final = re.compile(r"(?:\s+|__)(?P<sign>[<>=!]=?|<>|(?<=__)(?:gte?|lte?|ne|in))\s*\Z")
_PLACEHOLDER: Final = re.compile(r"<[^<>]*>")
_SIGNS: Final = "< > <= >= = == != <> =~ !~"
_WORDS: Final = (
    "gt gte ge lt lte le eq ne neq greaterthan lessthan in nin notin not between like ilike regex matches contains exists "
    "startswith endswith"
)
_OPERATORS: Final = frozenset(f"{_SIGNS} {_WORDS}".split())
"""The keys that other tools give a mapping that compares, as `_bare` has them."""
_PATH: Final = re.compile(r"extra(\.([^\\.]|\\[\\.])+)+")


def faults_of_where(where: Any, path: KeyPath) -> Iterator[tuple[KeyPath, str]]:
    """Yield what is wrong with a `where` that stands at `path`."""
    if not isinstance(where, Mapping):
        yield path, "must be a mapping of paths to values, such as `{extra.region: eu}`"
    elif not where:
        yield path, "asks for nothing: name a path, or remove it"
    else:
        for name, value in where.items():
            if fault := _fault_of_path(name) or _fault_of_value(name, value):
                yield (*path, name), fault


def _fault_of_path(name: Any) -> str | None:
    if isinstance(name, str) and (comparison := _COMPARED_PATH.search(name)):
        return (
            f"is compared for equality, and `{comparison['sign']}` is no comparison here: write the path alone, with the value, or a list "
            "of the values that fit, or let the job decide"
        )
    if name == "partition_key" or (isinstance(name, str) and _PATH.fullmatch(name)):
        return None
    return r"must be `partition_key`, or a path below `extra` such as `extra.region` (a dot in a name is written `\.`)"


def _fault_of_value(name: str, value: Any) -> str | None:
    if value == []:
        return "is an empty list, which no event would match; name at least one value"
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError):
        return "is compared as JSON, which has no such value: put a date in quotes, leave .nan and .inf out"
    if operator := _operator_in(value):
        return (
            f"is compared for equality, and `{operator}` is no comparison here: write the value, or a list of the values "
            "that fit, or let the job decide (an event that says exactly this is matched by a list with this one value)"
        )
    one_of = value if isinstance(value, list) else [value]
    if name == "partition_key" and not all(each is None or isinstance(each, str) for each in one_of):
        return "is compared with partition keys, which are texts: put it in quotes"
    return None


def _operator_in(value: Any) -> str | None:
    """The comparison that a value was meant to be, as it was written; None: it is a value."""
    if isinstance(value, str) and not _PLACEHOLDER.fullmatch(value) and (match := _OPERATOR.match(value)):
        return match["sign"] or match["word"]
    if isinstance(value, list) and len(value) > 1:
        operators = [_operator_in(member) for member in value]
        return operators[0] if all(operators) else None
    if isinstance(value, Mapping) and value and all(_bare(key) in _OPERATORS for key in value):
        return str(next(iter(value)))
    return None


def _bare(key: Any) -> str:
    """A key without what tools put before and between an operator's words: `$gt`, `_gte`, `not_in`, `startsWith`."""
    return re.sub("[ $_-]", "", str(key)).casefold()
