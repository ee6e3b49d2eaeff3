"""Asset conditions: pure functions of the JSON that jobs are stored with.

A condition is an asset's name, `{"alias": name}`, `{"all": [condition, …]}` or `{"any": [condition, …]}`; Airflow's
`a & (b | c)` (https://airflow.apache.org/docs/apache-airflow/stable/authoring-and-scheduling/asset-scheduling.html).
"""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from types import MappingProxyType
from typing import Final, TypeAlias

from store.keys import Condition

Resolved: TypeAlias = Mapping[str, AbstractSet[str]]
"""The names of the assets that each alias has resolved to."""
_NONE: Final[Resolved] = MappingProxyType({})


def is_met(condition: Condition, assets: AbstractSet[str], aliases: Resolved = _NONE) -> bool:
    """Whether events of these assets satisfy the condition. Raises `ValueError` if it is no condition.

    An alias stands for any of the assets that it has resolved to. It is never met before it has resolved to one.
    """
    match condition:
        case str():
            return condition in assets
        case {"alias": str(name)}:
            return not assets.isdisjoint(aliases.get(name, ()))
        case {"all": [_, *_] as parts}:
            return all(is_met(part, assets, aliases) for part in parts)
        case {"any": [_, *_] as parts}:
            return any(is_met(part, assets, aliases) for part in parts)
    raise ValueError(f"not a condition: {condition!r}")


def waits_for(condition: Condition | None, asset: str, aliases: Resolved = _NONE) -> bool:
    """Whether an event of the asset is one that some part of the condition needs."""
    match condition:
        case None:
            return False
        case {"all": parts} | {"any": parts}:
            return any(waits_for(part, asset, aliases) for part in parts)
    return is_met(condition, {asset}, aliases)


def names_alias(condition: Condition | None) -> bool:
    """Whether the condition depends on what an alias has resolved to."""
    match condition:
        case {"alias": _}:
            return True
        case {"all": parts} | {"any": parts}:
            return any(map(names_alias, parts))
    return False
