"""Options that `s3.new_files` and `file.new_files` share; config.md lists the YAML keys."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, field_validator, model_validator

from triggers.base import BaseOptions
from triggers.file_scan.algorithms import Algorithm, Strict, Window
from triggers.file_scan.matching import Matcher
from triggers.file_scan.state import Start
from triggers.file_scan.versions import length_of, moment_of
from triggers.options import Duration


def _parse_start(value: Any) -> Any:
    if isinstance(value, str) and value not in ("now", "all"):
        try:
            value = datetime.fromisoformat(value)
        except ValueError:
            raise ValueError("write now, all, or an ISO timestamp like 2026-11-20T09:00:00Z") from None
    if isinstance(value, datetime) and value.tzinfo is None:
        return value.replace(tzinfo=UTC)
    return value


class FileBatch(BaseOptions):
    max_files: int = Field(default=1000, ge=1)
    """The most files one event names."""


class FileOptions(BaseOptions):
    match: str | None = Field(default=None, min_length=1)
    regex: str | None = Field(default=None, min_length=1)
    interval: Duration = Field(default=timedelta(seconds=10), gt=timedelta(0))
    start: Annotated[Literal["now", "all"] | datetime, BeforeValidator(_parse_start)] = "now"
    mode: Literal["window", "strict"] = "window"
    lateness: Duration = timedelta(hours=24)
    min_age: Duration = timedelta(0)
    min_size: int = Field(default=0, ge=0)
    batch: FileBatch = FileBatch()

    @field_validator("match", "regex")
    @classmethod
    def _compiles(cls, value: str | None, info: Any) -> str | None:
        try:
            Matcher.of(**{"match": None, "regex": None, info.field_name: value})
        except re.error as error:
            raise ValueError(f"is no valid pattern ({error}); correct it") from None
        return value

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if self.match is not None and self.regex is not None:
            raise ValueError("match and regex exclude each other; remove one")
        if self.mode == "window" and self.min_age >= self.lateness:
            raise ValueError(
                "min_age must be below lateness, else files are forgotten before they are old enough; change one"
            )
        return self

    @property
    def matcher(self) -> Matcher:
        return Matcher.of(match=self.match, regex=self.regex)

    @property
    def start_from(self) -> Start:
        return self.start if isinstance(self.start, str) else moment_of(self.start)

    def algorithm(self) -> Algorithm:
        return Strict() if self.mode == "strict" else Window(length_of(self.lateness))
