"""What every mapping of the YAML has in common."""

from __future__ import annotations

import ast
import inspect
import textwrap
from itertools import pairwise
from typing import Any, Final

from pydantic import BaseModel, ConfigDict, GetJsonSchemaHandler
from pydantic_core import CoreSchema

MOST: Final = 2**31 - 1
"""The largest whole number that the metadata database holds in a column of counts, and a JVM in an `int`."""


class Section(BaseModel):
    """A mapping in the YAML: unknown keys are refused, and an error's text never holds what was written."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        hide_input_in_errors=True,
        validate_default=True,  # so that a default that clashes with a given value is found, and default paths get a folder
    )

    @classmethod
    def meanings(cls) -> dict[str, str]:
        """What the text below each field says, by the field's key.

        Read from the source whenever it is asked for, which few commands do: pydantic's `use_attribute_docstrings` reads it
        in all of them, and that takes as long as all else of the configuration.
        """
        texts: dict[str, str] = {}
        for part in reversed(cls.__mro__):
            if issubclass(part, Section):
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
