"""The options of `s3.new_files`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Self

from pydantic import BaseModel, Field, field_validator, model_validator

from triggers.explanations import Explanation
from triggers.file_scan.options import FileOptions
from triggers.s3.explanation import named

_PLACE: Final = re.compile("s3[an]?://([A-Za-z0-9._-]{3,255})/((?:.*/)?)", re.DOTALL)


@dataclass(frozen=True, kw_only=True)
class ObjectPlace:
    """A bucket, and what all keys begin with there."""

    bucket: str
    prefix: str


def overlap(prefix: str, other: str) -> bool:
    """Whether a key may begin with both."""
    return prefix.startswith(other) or other.startswith(prefix)


class S3NewFilesOptions(FileOptions):
    """Options of `s3.new_files`; `match` and `regex` see the key after the prefix."""

    bucket: str = Field(pattern=r"^[A-Za-z0-9._-]{3,255}$")
    """A bucket's name or an access point's alias."""
    prefix: str = ""
    directory_markers: bool = False
    notifications: str | None = Field(default=None, pattern=r"^https?://[^/@?#]+/[^?#]+$")
    """The url of an SQS queue in which S3 names new objects; no other watcher may read it."""

    @field_validator("bucket")
    @classmethod
    def _lists_in_order(cls, value: str) -> str:
        if value.endswith(("--x-s3", "--xa-s3")):
            raise ValueError(
                "directory buckets do not list in key order, so that new files would be missed; use another bucket"
            )
        return value

    @model_validator(mode="after")
    def _moves_out(self) -> Self:
        if self.clean_source is None or self.clean_source.move_to is None:
            return self
        target = self.target
        if target is None:
            raise ValueError("clean_source.move_to must be s3://bucket/prefix/, with a / at its end")
        if target.bucket == self.bucket and overlap(target.prefix, self.prefix):
            raise ValueError(
                "clean_source.move_to must not begin with the watched prefix, nor the prefix with it: what was moved would be new"
                " again"
            )
        return self

    @property
    def target(self) -> ObjectPlace | None:
        """Where objects are moved, if they are."""
        if self.clean_source is None or self.clean_source.move_to is None:
            return None
        match = _PLACE.fullmatch(self.clean_source.move_to)
        return None if match is None else ObjectPlace(bucket=match[1], prefix=match[2])

    def brings_back(self, other: BaseModel) -> bool:
        if (target := self.target) is None or not isinstance(other, S3NewFilesOptions):
            return False
        return target.bucket == other.bucket and overlap(target.prefix, other.prefix)

    @property
    def watched(self) -> tuple[str, str]:
        return "prefix", f"{self.bucket}/{self.prefix}"

    def name_below(self, key: str) -> str:
        return key.removeprefix(self.prefix)

    def name_item(self, item: str) -> Explanation:
        return named(item, self.bucket, self.prefix)
