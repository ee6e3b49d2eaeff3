"""What every mapping of the YAML has in common, and what its model says about its keys."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any, Final, get_args

from pydantic import BaseModel, ConfigDict, GetJsonSchemaHandler
from pydantic.fields import FieldInfo
from pydantic_core import CoreSchema

from config.errors import KeyPath

LARGEST_INT: Final = 2**31 - 1
"""The largest whole number that the metadata database holds in a column of counts, and a JVM in an `int`."""


class Section(BaseModel):
    """A mapping in the YAML. Unknown keys are refused, and the text of an error never holds the value that was written."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        hide_input_in_errors=True,
        validate_default=True,  # so that a default that clashes with a given value is found, and default paths get a folder
    )

    @classmethod
    def meanings(cls) -> dict[str, str]:
        """The docstring below each field, by the field's key.

        They are read from the source on each call, because few commands need them. pydantic's
        `use_attribute_docstrings` reads them in every command, which takes as long as the rest of the configuration.
        """
        texts: dict[str, str] = {}
        for part in reversed(cls.__mro__):
            if issubclass(part, Section) and "__annotations__" in vars(part):  # not one that is only made of others
                texts |= _texts_below_attributes(part)
        return {field.alias or name: texts[name] for name, field in cls.model_fields.items() if name in texts}

    @classmethod
    def __get_pydantic_json_schema__(cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        schema = handler(core_schema)
        properties = handler.resolve_ref_schema(schema)["properties"]
        for key, text in cls.meanings().items():
            properties[key].setdefault("description", text)
        return schema


def _texts_below_attributes(model: type[Section]) -> dict[str, str]:
    definition: Any = ast.parse(textwrap.dedent(inspect.getsource(model))).body[0]
    texts = {}
    for attribute, below in pairwise(definition.body):
        match attribute, below:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str() as text)):
                texts[name] = inspect.cleandoc(text)
    return texts


def models_at(model: type[BaseModel], path: KeyPath) -> list[type[BaseModel]]:
    """The models of the mapping at `path` within a `model`. The list is empty where anything is allowed."""
    models = [model]
    for part in path:
        fields = [field for each in models for key, field in keys(each).items() if key == part]
        models = [inner for field in fields for inner in models_in(field.annotation)] if fields else models
    return models


def keys(model: type[BaseModel]) -> Mapping[str, FieldInfo]:
    """The model's fields by their names in the YAML."""
    return {field.alias or name: field for name, field in model.model_fields.items()}


def models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    """The models in `annotation`, through unions, lists, the values of mappings and `Annotated`."""
    return (part for part in parts_of(annotation) if isinstance(part, type) and issubclass(part, BaseModel))


def parts_of(annotation: Any) -> Iterator[Any]:
    """`annotation` itself and every type in it."""
    yield annotation
    for argument in get_args(annotation):
        yield from parts_of(argument)
