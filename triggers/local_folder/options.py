"""The options of `file.new_files`."""

from __future__ import annotations

import os
from datetime import timedelta
from typing import Literal, Self
from urllib.parse import unquote

from pydantic import BaseModel, Field, ValidationInfo, field_validator, model_validator

from triggers.explanations import Explanation
from triggers.file_scan.options import CleanSource, FileOptions
from triggers.local_folder.explanation import named
from triggers.local_folder.folder import Identity
from triggers.options import Duration


class FileNewFilesOptions(FileOptions):
    """Options of `file.new_files`; `match` and `regex` see the path below `path`."""

    path: str
    interval: Duration = Field(default=timedelta(seconds=2), gt=timedelta(0))
    mode: Literal["window", "strict"] = "strict"
    min_age: Duration = timedelta(seconds=2)
    identity: Identity = "auto"
    on_bad_row: Literal["stop", "report"] = "report"

    @field_validator("path")
    @classmethod
    def _is_absolute(cls, value: str, info: ValidationInfo) -> str:
        """Make the path absolute: it names the source, and a relative one starts at the configuration's folder."""
        if info.context is not None:
            value = str(info.context.folder / value)
        if not value.startswith("/"):
            raise ValueError("path must be absolute, since it names the source whatever the working folder is")
        return value.rstrip("/") or "/"

    @field_validator("clean_source")
    @classmethod
    def _moves_into_a_folder(cls, value: CleanSource | None, info: ValidationInfo) -> CleanSource | None:
        """Make the target absolute, as the path is."""
        if value is None or value.move_to is None:
            return value
        scheme, separator, rest = value.move_to.partition("://")
        if separator and scheme != "file":
            raise ValueError("move_to must be a folder, a path or a file: URL")
        target = unquote(rest) if separator else value.move_to
        if info.context is not None:
            target = str(info.context.folder / target)
        if not target.startswith("/"):
            raise ValueError("move_to must be absolute, like path")
        return CleanSource(move_to=os.path.normpath(target), after=value.after)

    @model_validator(mode="after")
    def _moves_out(self) -> Self:
        target = None if self.clean_source is None else self.clean_source.move_to
        if target is not None and contains_one_the_other(os.path.realpath(self.path), os.path.realpath(target)):
            raise ValueError(
                "clean_source.move_to must lie outside the watched folder, and not above it: what was moved would be new again"
            )
        return self

    def brings_back(self, other: BaseModel) -> bool:
        target = None if self.clean_source is None else self.clean_source.move_to
        if target is None or not isinstance(other, FileNewFilesOptions):
            return False
        return contains_one_the_other(os.path.realpath(other.path), os.path.realpath(target))

    @field_validator("regex")
    @classmethod
    def _begins_below(cls, value: str | None) -> str | None:
        if value is not None and value.startswith(("^/", "\\A/")):
            raise ValueError(
                "is matched below the watched folder, where no name begins with `/`; remove the folder and its `/`"
            )
        return value

    @property
    def watched(self) -> tuple[str, str]:
        return "folder", self.path

    def name_below(self, key: str) -> str:
        return key.removeprefix(f"{self.path.rstrip('/')}/")

    def name_item(self, item: str) -> Explanation:
        return named(item, self.path)


def contains_one_the_other(folder: str, other: str) -> bool:
    """Whether one of two folders lies below the other, or is the other; by their names."""
    return f"{folder}/".startswith(f"{other.rstrip('/')}/") or f"{other}/".startswith(f"{folder.rstrip('/')}/")
