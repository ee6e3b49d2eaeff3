"""Infer the columns of JSON: the names of the objects, in their order by name, and the types that the values show."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final

import pyarrow as pa

from asset_job.errors import SourceInvalid
from asset_job.sources.json.columns import fault
from asset_job.sources.json.parser import json_values
from asset_job.sources.json.strict import Number
from asset_job.sources.json.values import Value
from asset_job.sources.options import ReadOptions
from asset_job.sources.records import OpenFile
from asset_job.sources.request import quoted
from asset_job.sources.texts.inference import ShownType

_MANY: Final = 10_000
"""Objects after which their numbers are regarded."""
_LEVELS: Final = 50
"""The objects and arrays inside one another that columns show. What is in them is a text."""


@dataclass
class JsonShape:
    """What values at one place show of their type. Two are joined in any order. It travels as JSON."""

    scalars: ShownType = field(default_factory=ShownType)
    members: dict[str, JsonShape] | None = None
    """The members of objects; None: there is no object."""
    items: JsonShape | None = None
    """The elements of arrays; None: there is no array."""
    numbers: list[Number] = field(default_factory=list)
    """The numbers that are not yet in `scalars`."""
    text: bool = False
    """Whether there is a text, which may not yet be in `scalars`."""
    boolean: bool = False

    @classmethod
    def of(cls, shape: dict[str, Any]) -> JsonShape:
        """The shape of which `asdict` made this."""
        members = None if shape["members"] is None else {name: cls.of(each) for name, each in shape["members"].items()}
        return cls(replace(ShownType(), **shape["scalars"]), members, shape["items"] and cls.of(shape["items"]))

    def add(self, value: Any, levels: int = _LEVELS) -> None:
        """Regard one more value. Null shows nothing; what has more levels is a text."""
        if isinstance(value, Number):
            self.numbers.append(value)
        elif levels and isinstance(value, dict):
            self._add_members(value, levels)
        elif levels and isinstance(value, list):
            self.items = self.items or JsonShape()
            for item in value:
                self.items.add(item, levels - 1)
        elif value is not None:
            self.boolean |= isinstance(value, bool)
            self.text |= not isinstance(value, bool)

    def _add_members(self, members: dict[str, Any], levels: int) -> None:
        self.members = {} if self.members is None else self.members
        for name, item in members.items():
            if name not in self.members:
                self.members[name] = JsonShape()
            self.members[name].add(item, levels - 1)

    def count(self) -> None:
        """Regard what waits in the values and below."""
        if self.numbers:
            self.scalars = self.scalars.joined(ShownType.of_numbers(pa.array(self.numbers, pa.string())))
            self.numbers = []
        self.scalars = self.scalars.joined(ShownType(text=self.text, boolean=self.boolean))
        for each in [*(self.members or {}).values(), *([self.items] if self.items else [])]:
            each.count()

    def join(self, other: JsonShape) -> None:
        """Regard all values of another shape."""
        self.scalars = self.scalars.joined(other.scalars)
        if other.members is not None:
            self.members = {} if self.members is None else self.members
            for name, each in other.members.items():
                self.members.setdefault(name, JsonShape()).join(each)
        if other.items:
            self.items = self.items or JsonShape()
            self.items.join(other.items)

    @property
    def ddl(self) -> str:
        """Spark's name of the type. Values of different kinds, and objects without members, are texts."""
        if (self.scalars != ShownType()) + (self.members is not None) + (self.items is not None) != 1:
            return "string"
        if self.items:
            return f"array<{self.items.ddl}>"
        return f"struct<{', '.join(self.fields(': '))}>" if self.members else self.scalars.ddl

    def fields(self, between: str) -> list[str]:
        """The names and types of the members. Raises `SourceInvalid` if Spark does not tell two names apart."""
        members = sorted((self.members or {}).items())
        lower: dict[str, str] = {}
        for name, _ in members:
            if (other := lower.setdefault(name.lower(), name)) != name:
                raise SourceInvalid(f"the names {other!r} and {name!r} differ in case only: give a schema that has one")
        return [f"{quoted(name)}{between}{each.ddl}" for name, each in members]


@dataclass(frozen=True, kw_only=True)
class JsonInference:
    """Infers the columns of JSON from all values that are objects."""

    options: ReadOptions

    def inferred(self, file: OpenFile) -> str:
        shape, values = JsonShape(), json_values(file, self.options)
        regarded = 0
        while values.is_left():
            for value in values.group():
                if isinstance(value, Value) and isinstance(value.value, dict) and not fault(value):
                    shape.add(value.value)
                    regarded += 1
                    if regarded % _MANY == 0:
                        shape.count()
        shape.count()
        return json.dumps(asdict(shape))

    def schema(self, results: Sequence[str]) -> str:
        shape = JsonShape()
        for result in results:
            shape.join(JsonShape.of(json.loads(result)))
        if not shape.members:
            raise SourceInvalid(
                "none of the files has an object with a name: give a schema, or skip empty files by the watcher's min_size"
            )
        return ", ".join(shape.fields(" "))
