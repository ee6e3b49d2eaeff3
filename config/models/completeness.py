"""When a partition is complete: `{region: [us, eu]}`, with `at_least: n`, `{items: n}`, `{marker: glob}` or `{manifest: glob}`.

Each may say `again: true`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, Final, TypeAlias

from pydantic import PlainSerializer, PlainValidator, WithJsonSchema

from config.section import LARGEST_INT

_FORMS: Final = (
    "must be `{part: [value, …]}`, which `at_least: n` may follow, `{items: n}`, `{marker: glob}` or `{manifest: glob}`, each with "
    "or without `again: true`"
)


@dataclass(frozen=True, kw_only=True)
class CompleteConfig:
    """All `values` of a `part`, or `at_least` so many of them; or so many `items`; or a file that matches `marker`.

    Or all files whose names stand in the files that match `manifest`, and one of these. `again`: what comes after that is the next
    delivery of the partition.
    """

    part: str = ""
    values: tuple[str, ...] = ()
    at_least: int | None = None
    items: int | None = None
    marker: str | None = None
    manifest: str | None = None
    again: bool = False

    @property
    def glob(self) -> str | None:
        """What matches the files that watchers report after all else and this waits for; None: it waits for none."""
        return self.marker or self.manifest


def _parse(value: Any) -> CompleteConfig | None:
    match value:
        case None | CompleteConfig():
            return value
        case {"again": bool(again), **form}:  # a part may have this name: its values are a list
            complete = _parse(form)
            return None if complete is None else replace(complete, again=again)
        case {"items": items, **rest} if not rest:
            return CompleteConfig(items=_number("items", items, LARGEST_INT))
        case {"marker": str(glob), **rest} if not rest and glob.strip():
            return CompleteConfig(marker=_below("marker", glob))
        case {"manifest": str(glob), **rest} if not rest and glob.strip():
            return CompleteConfig(manifest=_below("manifest", glob))
        case {"items": _} | {"marker": _} | {"manifest": _}:
            raise ValueError(_FORMS)
        case dict():
            values = {name: each for name, each in value.items() if name != "at_least"}
            if len(values) == 1:
                [(part, listed)] = values.items()
                return _of_values(part, listed, value.get("at_least"))
    raise ValueError(_FORMS)


def _below(key: str, glob: str) -> str:
    """Return a glob of names below the watched place. Raises ValueError for a whole path."""
    if match := re.match(r"(?:\w+://|~?/|\.{1,2}/)", glob):
        raise ValueError(
            f"`{key}` is matched below the watched place, where no name begins with `{match[0]}`; "
            f"write `**/{glob.rpartition('/')[2]}`"
        )
    return glob


def _of_values(part: Any, listed: Any, at_least: Any) -> CompleteConfig:
    if not isinstance(listed, list) or not listed or not all(isinstance(each, str) and each.strip() for each in listed):
        raise ValueError(f"must list the values of {part} as texts")
    if len({*listed}) != len(listed):
        raise ValueError(f"lists a value of {part} twice")
    most = None if at_least is None else _number("at_least", at_least, len(listed))
    return CompleteConfig(part=str(part), values=tuple(listed), at_least=most)


def _number(name: str, value: Any, most: int) -> int:
    if type(value) is not int or not 1 <= value <= most:
        raise ValueError(f"`{name}` must be a whole number from 1 to {most}")
    return value


def _to_json(complete: CompleteConfig | None) -> Mapping[str, Any] | None:
    if complete is None:
        return None
    again = {"again": True} if complete.again else {}
    if complete.items is not None:
        return {"items": complete.items, **again}
    if complete.marker is not None:
        return {"marker": complete.marker, **again}
    if complete.manifest is not None:
        return {"manifest": complete.manifest, **again}
    more = {} if complete.at_least is None else {"at_least": complete.at_least}
    return {complete.part: list(complete.values), **more, **again}


_AT_LEAST_ONE: Final = {"type": "integer", "minimum": 1, "maximum": LARGEST_INT}
_AGAIN: Final = {"type": "boolean"}
_VALUES: Final = {"type": "array", "items": {"type": "string"}, "minItems": 1, "uniqueItems": True}
_SCHEMA: Final[dict[str, Any]] = {
    "anyOf": [
        {"type": "null"},
        {
            "type": "object",
            "properties": {"items": _AT_LEAST_ONE, "again": _AGAIN},
            "required": ["items"],
            "additionalProperties": False,
        },
        *(
            {
                "type": "object",
                "properties": {name: {"type": "string", "minLength": 1}, "again": _AGAIN},
                "required": [name],
                "additionalProperties": False,
            }
            for name in ("marker", "manifest")
        ),
        {
            "type": "object",
            "properties": {"at_least": _AT_LEAST_ONE, "again": {"anyOf": [_AGAIN, _VALUES]}},
            "additionalProperties": _VALUES,
        },
    ]
}
CompleteField: TypeAlias = Annotated[
    CompleteConfig | None, PlainValidator(_parse), PlainSerializer(_to_json), WithJsonSchema(_SCHEMA)
]
