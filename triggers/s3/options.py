"""Options of `s3.new_files`; config.md lists the YAML keys."""

from __future__ import annotations

from pydantic import Field, field_validator

from triggers.files.options import FileOptions


class S3NewFilesOptions(FileOptions):
    """`match` and `regex` see the key after the prefix."""

    bucket: str = Field(pattern=r"^[A-Za-z0-9._-]{3,255}$")
    """A bucket's name or an access point's alias."""
    prefix: str = ""
    directory_markers: bool = False
    notifications: str | None = Field(default=None, pattern=r"^https?://[^/@?#]+/[^?#]+$")
    """The url of an SQS queue in which S3 names new objects; this watcher's own."""

    @field_validator("bucket")
    @classmethod
    def _lists_in_order(cls, value: str) -> str:
        if value.endswith(("--x-s3", "--xa-s3")):
            raise ValueError(
                "directory buckets do not list in key order, so that new files would be missed; use another bucket"
            )
        return value
