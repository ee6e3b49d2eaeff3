"""The options that all triggers of files have."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Annotated, Any, Final, Literal, Self, TypeAlias, TypeVar

from pydantic import AfterValidator, BeforeValidator, Field, ValidationInfo, field_validator, model_validator

from triggers.errors import ConfigurationError
from triggers.explanations import Explanation, cannot_tell
from triggers.file_scan.matching import Matcher
from triggers.file_scan.partitions import Partition
from triggers.file_scan.rules.modes import Algorithm, StrictAlgorithm, WindowAlgorithm
from triggers.file_scan.state.scan_state import Start
from triggers.file_scan.versions import length_of, moment_of
from triggers.hosting import RewindPlace
from triggers.options import BaseOptions, BatchOptions, Duration, Facts, parse_time
from triggers.shared.globs import WILDCARDS, exclude_each_other, glob_expression


def _parse_start(value: Any) -> Any:
    if not isinstance(value, str | datetime) or value in ("now", "all"):
        return value
    try:
        return parse_time(value)
    except ValueError:
        raise ValueError("write now, all, or an ISO timestamp like 2026-11-20T09:00:00Z") from None


def _check_glob(value: str) -> str:
    try:
        _glob(value)
    except re.error as error:
        raise ValueError(f"is no valid pattern ({error}); correct it") from None
    return value


def pattern_fault(glob: str, place: str, watched: str = "") -> str | None:
    """Why a glob matches nothing, as far as its beginning tells: it is a whole path; None if it may match.

    Patterns see what lies below the watched place, which is a `place` ("folder", "prefix") with the address `watched`.
    """
    bare = _ANCHOR.sub("", glob)
    if bare == glob:
        return None
    inner = watched.strip("/")
    for start in filter(None, (inner, inner.rpartition("/")[2])):
        if bare.startswith(f"{start}/"):
            bare = bare.removeprefix(f"{start}/")
            break
    else:
        fixed = WILDCARDS.split(bare, maxsplit=1)[0].rpartition("/")[0] if glob[:2] not in ("./", ".\\") else ""
        bare = bare.removeprefix(f"{fixed}/") if fixed else bare
    return f"a pattern is matched below the watched {place}, where nothing begins like this: write `{bare or '**'}`"


def _none_if_empty(assets: dict[str, str] | None) -> dict[str, str] | None:
    return assets or None


_ANCHOR: Final = re.compile(r"\A(?:(?:file|s3[an]?)://|~?/|(?:\.{1,2}/)+)+")
"""What a pattern cannot begin with: a scheme, a root, or a step that names of files do not have."""
_glob = lru_cache(maxsize=1000)(glob_expression)
Glob: TypeAlias = Annotated[str, Field(min_length=1), AfterValidator(_check_glob)]


class FileBatch(BatchOptions):
    max_files: int = Field(default=1000, ge=1)
    """The most files that one event names."""


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


class FileOptions(BaseOptions):
    match: str | None = Field(default=None, min_length=1)
    regex: str | None = Field(default=None, min_length=1)
    interval: Duration = Field(default=timedelta(seconds=10), gt=timedelta(0))
    start: Annotated[Literal["now", "all"] | datetime, BeforeValidator(_parse_start)] = "now"
    mode: Literal["window", "strict"] = "window"
    lateness: Duration = timedelta(hours=24)
    forget_after: Duration = timedelta(days=7)
    min_age: Duration = timedelta(0)
    min_size: int = Field(default=0, ge=0)
    batch: FileBatch = FileBatch()
    on_bad_row: Literal["stop", "report"] = "stop"
    on_copied: Literal["stop", "report"] = "stop"
    partition: Partition | None = None
    assets: Annotated[dict[str, Glob] | None, AfterValidator(_none_if_empty)] = None
    last: tuple[Glob, ...] | None = Field(default=None, min_length=1)
    clean_source: CleanSource | None = None

    @field_validator("match", "regex")
    @classmethod
    def _compiles(cls, value: str | None, info: ValidationInfo) -> str | None:
        try:
            Matcher.of(
                match=value if info.field_name == "match" else None, regex=value if info.field_name == "regex" else None
            )
        except re.error as error:
            raise ValueError(f"is no valid pattern ({error}); correct it") from None
        return value

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if self.match is not None and self.regex is not None:
            raise ValueError("match and regex exclude each other; remove one")
        for glob in self.last or ():
            if self.match is not None and exclude_each_other(glob, self.match):
                raise ValueError(
                    f"`match: {self.match}` selects nothing that `last: {glob}` matches; write a `regex` that selects both"
                )
        if self.mode == "window" and self.min_age >= self.lateness:
            raise ValueError(
                "min_age must be below lateness, else files are forgotten before they are old enough; change one"
            )
        return self

    @model_validator(mode="after")
    def _patterns_are_below(self) -> Self:
        """Refuse patterns that can match nothing because they begin with the watched place, or with a root."""
        kind, watched = self.watched
        globs = [("match", self.match or ""), *(("last", glob) for glob in self.last or ())]
        globs += [(f"assets.{name}", glob) for name, glob in (self.assets or {}).items()]
        for key, glob in globs:
            if fault := pattern_fault(glob, kind, watched):
                raise ValueError(f"`{key}: {glob}`: {fault}")
        return self

    @property
    def watched(self) -> tuple[str, str]:
        """What the watched place is ("folder", "prefix"), and its address."""
        return "place", ""

    def name_below(self, key: str) -> str:
        """Return what the patterns see of a file, by its key or its name in events: its key below the watched place."""
        return key

    def name_item(self, item: str) -> Explanation:
        """Return what the options alone say of an item, see `NamesItems`."""
        return cannot_tell(item)

    def tells_last(self, key: str) -> bool:
        """Whether a file is reported after all others, by its key."""
        name = self.name_below(key)
        return any(expression.search(name) for expression in map(_glob, self.last or ()))

    @property
    def further_assets(self) -> Sequence[str]:
        return tuple(self.assets or ())

    def facts(self) -> Facts:
        parts = tuple(self.partition) if isinstance(self.partition, Mapping) else None
        after = None if self.clean_source is None else self.clean_source.after
        return replace(super().facts(), parts=parts, cleaned_after=after, names_versions=True)

    def asset_of(self, name: str) -> str | None:
        """Return the asset of a file, by its name below the watched place. None: the watcher's own."""
        return next((asset for asset, glob in (self.assets or {}).items() if _glob(glob).search(name)), None)

    @property
    def matcher(self) -> Matcher:
        return Matcher.of(match=self.match, regex=self.regex)

    @property
    def start_from(self) -> Start:
        return self.start if isinstance(self.start, str) else moment_of(self.start)

    def rewind_places(self) -> Sequence[RewindPlace]:
        """The places that `start_of` knows, and `here`."""
        return (
            RewindPlace(kind="start", about="everything that is there is reported, also what was reported before"),
            RewindPlace(kind="time", about="what was written since then is reported, also what was reported before"),
            RewindPlace(kind="now", about="what is there by now is passed over"),
            RewindPlace(
                kind="here", about="goes on where it stood, after match, regex, min_size or prefix has changed"
            ),
        )

    def algorithm(self) -> Algorithm:
        return StrictAlgorithm() if self.mode == "strict" else WindowAlgorithm(length_of(self.lateness))


FileOptionsT = TypeVar("FileOptionsT", bound=FileOptions)


def start_of(to: str) -> Start:
    """The `start` of a new watcher that would begin where a rewind goes `to`."""
    if to == "now":
        return "now"
    if to == "start":
        return "all"
    try:
        return moment_of(parse_time(to))
    except ValueError:
        raise ConfigurationError(
            f"{to!r} is no place to rewind to; write here, now, start, or an ISO timestamp like 2026-11-20T09:00:00Z"
        ) from None
