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
    one_of = value if isinstance(value, list) else [value]
    if name == "partition_key" and not all(each is None or isinstance(each, str) for each in one_of):
        return "is compared with partition keys, which are texts: put it in quotes"
    return None
