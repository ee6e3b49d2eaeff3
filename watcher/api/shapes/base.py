"""What all answers have in common."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Shape(BaseModel):
    """An answer, or a part of one."""

    model_config = ConfigDict(frozen=True)
