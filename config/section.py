"""What every mapping of the YAML has in common."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Section(BaseModel):
    """A mapping in the YAML: unknown keys are refused, and an error's text never holds what was written."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        hide_input_in_errors=True,
        use_attribute_docstrings=True,
        validate_default=True,  # so that a default that clashes with a given value is found, and default paths get a folder
    )
