"""Keys that are described but not built, and are refused with the words "is not built".

`RESERVED` is the one table of them. Whoever builds a key removes its entry; while the entry stands, no model may know the
key. A key's default may be written out: it asks for nothing.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from pydantic import BaseModel

from config.errors import KeyPath
from config.section import keys, models_at

REMOVE: Final = "is not built; remove it"
_ABSENT: Final = object()


@dataclass(frozen=True, kw_only=True)
class ReservedKey:
    """A key that no model has. It is accepted with its `default` (or part of it, if that is a mapping), and else refused."""

    path: str
    """The key's place in the YAML; `*` stands for a name."""
    default: Any


def _reserved_keys(path: str, **defaults: Any) -> Iterator[ReservedKey]:
    return (ReservedKey(path=f"{path}.{name}", default=default) for name, default in defaults.items())


RESERVED: Final[tuple[ReservedKey, ...]] = (
    *_reserved_keys("settings", openlineage=None),
    *_reserved_keys("settings.api", oidc=None),
)


def without_reserved(model: type[BaseModel], data: Any, path: KeyPath) -> tuple[Any, list[tuple[KeyPath, str]]]:
    """Return `data`, which stands at `path`, without reserved keys that its `model` does not have.

    The second value has a fault for each of these keys that is not the default.
    """
    faults: list[tuple[KeyPath, str]] = []
    for entry in RESERVED:
        inner = _inner(entry.path, path)
        value = _value_at(data, inner)
        if inner and value is not _ABSENT and not _is_known(model, inner):
            if not _is_default(value, entry.default):
                faults.append((inner, REMOVE))
            data = _without(data, inner)
    return data, faults


def not_built(path: KeyPath, document: Any, sentence: str) -> str:
    """`sentence` about what stands at `path` of the `document`, with the reason why it is refused when it is reserved."""
    for entry in RESERVED:
        if _matches(entry.path.split("."), path) and _value_at(document, path) is not _ABSENT:
            return REMOVE
    return sentence


def _inner(pattern: str, path: KeyPath) -> KeyPath:
    """The part of `pattern` after `path`; () if `path` does not match, or if the rest holds a `*`."""
    parts = pattern.split(".")
    rest = tuple(parts[len(path) :])
    return rest if "*" not in rest and _matches(parts[: len(path)], path) else ()


def _matches(pattern: list[str], path: KeyPath) -> bool:
    return len(pattern) == len(path) and all(part in {"*", name} for part, name in zip(pattern, path, strict=True))


def _is_known(model: type[BaseModel], inner: KeyPath) -> bool:
    """Whether `model` has the key at `inner`. It does where anything is allowed."""
    models = models_at(model, inner[:-1])
    return not models or any(inner[-1] in keys(each) for each in models)


def _is_default(value: Any, default: Any) -> bool:
    if isinstance(default, dict) and default:
        return isinstance(value, dict) and all(
            name in default and _is_default(each, default[name]) for name, each in value.items()
        )
    same = type(value) is type(default) and value == default
    return same or (isinstance(value, str) and value == json.dumps(default))  # a number from the environment is text


def _value_at(data: Any, path: KeyPath) -> Any:
    try:
        for part in path:
            data = data[part]
    except (KeyError, IndexError, TypeError):
        return _ABSENT
    return data


def _without(data: dict[str, Any], path: KeyPath) -> dict[str, Any]:
    first, *rest = path
    if not rest:
        return {key: value for key, value in data.items() if key != first}
    return {key: _without(value, tuple(rest)) if key == first else value for key, value in data.items()}
