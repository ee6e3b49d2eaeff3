"""Asset conditions: pure functions of the JSON that jobs are stored with.

A condition is a reference (an asset's name, `{"asset": name, "where": …}`, `{"alias": name}`), `{"all": [condition, …]}` or
`{"any": [condition, …]}`; Airflow's `a & (b | c)` (https://airflow.apache.org/docs/apache-airflow/stable/authoring-and-scheduling/asset-scheduling.html).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from types import MappingProxyType
from typing import Any, Final, TypeAlias

from store.keys import Condition
from store.references import key, references, where_id

Resolved: TypeAlias = Mapping[str, AbstractSet[str]]
"""The names of the assets that each alias has resolved to."""
_NONE: Final[Resolved] = MappingProxyType({})


def is_met(condition: Condition, assets: AbstractSet[str], aliases: Resolved = _NONE) -> bool:
    """Whether events that satisfy these references together meet the condition. Raises `ValueError` if it is none.

    `assets` has the keys of the references, as `store.references.keys` returns them: names of assets, unless there is a
    `where`. An alias stands for any of the assets that it has resolved to. It is never met before it has resolved to one.
    """
    match condition:
        case str():
            return condition in assets
        case {"asset": str(name)}:
            return key(name, where_id(condition.get("where"))) in assets
        case {"alias": str(name)}:
            asks = where_id(condition.get("where"))
            return any(key(asset, asks) in assets for asset in aliases.get(name, ()))
        case {"all": [_, *_] as parts}:
            return all(is_met(part, assets, aliases) for part in parts)
        case {"any": [_, *_] as parts}:
            return any(is_met(part, assets, aliases) for part in parts)
    raise ValueError(f"not a condition: {condition!r}")


def names_alias(condition: Condition | None) -> bool:
    """Whether the condition depends on what an alias has resolved to."""
    return any(reference.is_alias for reference in references(condition))


def where_text(where: Mapping[str, Any]) -> str:
    """Return what a `where` asks for, such as `extra.region = "eu" and extra.kind in ["a", "b"]`."""
    return " and ".join(
        f"{path} {'in' if isinstance(value, list) else '='} {json.dumps(value, ensure_ascii=False)}"
        for path, value in where.items()
    )


def asks(reference: Condition) -> str:
    """Return what a reference asks for besides its asset or alias, to follow the name: empty without `where`."""
    where = None if isinstance(reference, str) else reference.get("where")
    return "" if where is None else f" where {where_text(where)}"


def lacking(
    condition: Condition, queued: AbstractSet[str], resolved: Resolved, details: Callable[[str], str] = lambda _: ""
) -> str:
    """Name the missing parts of a condition that is not met, each with `details` by the key of the reference."""
    match condition:
        case str():
            return f"`{condition}`{details(condition)}"
        case {"alias": str(name)}:
            return f"the alias `{name}`{asks(condition)}"
        case {"asset": str(name)}:
            return f"`{name}`{asks(condition)}{details(key(name, where_id(condition.get('where'))))}"
        case {"any": parts}:
            return " or ".join(lacking(part, queued, resolved, details) for part in parts)
        case {"all": parts}:
            missing = [part for part in parts if not is_met(part, queued, resolved)]
            return " and ".join(lacking(part, queued, resolved, details) for part in missing)
    raise ValueError(f"not a condition: {condition!r}")
