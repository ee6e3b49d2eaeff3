"""The option `clean_source`: what becomes of files that all jobs have loaded."""

from __future__ import annotations

from datetime import timedelta
from typing import Literal, Self

from pydantic import Field, model_validator

from triggers.options import BaseOptions, Duration


class CleanSource(BaseOptions):
    """Files are deleted, or moved, once every job that was owed them has loaded them."""

    delete: Literal[True] | None = None
    """true: they are deleted."""
    move_to: str | None = Field(default=None, min_length=1)
    """Where they are moved: a folder for files of a folder, `s3://bucket/prefix/` for objects."""
    after: Duration = timedelta(days=7)
    """How long they stay after the last of these jobs has succeeded."""

    @model_validator(mode="after")
    def _either(self) -> Self:
        if (self.delete is None) == (self.move_to is None):
            raise ValueError("write either delete: true or move_to: where files go")
        return self
