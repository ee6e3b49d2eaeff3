"""The options of reading files, by the names that Spark gives them. Every other name is refused. Pure."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, get_args
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from asset_job.errors import AssetJobError
from asset_job.sources.texts.patterns import expression

Mode = Literal["PERMISSIVE", "DROPMALFORMED", "FAILFAST"]
Calendar = Literal["CORRECTED", "LEGACY"]

_TEXT: Final = {"encoding": "encoding", "charset": "encoding", "lineSep": "line_separator"}
_VALUES: Final = {
    "mode": "mode",
    "columnNameOfCorruptRecord": "corrupt_column",
    "dateFormat": "date_format",
    "timestampFormat": "timestamp_format",
    "timestampNTZFormat": "timestamp_ntz_format",
    "timeZone": "time_zone",
    "multiLine": "multi_line",
}
NAMES: Final[Mapping[str, Mapping[str, str]]] = {
    "text": _TEXT,
    "json": {**_TEXT, **_VALUES},
    "csv": {
        **_TEXT,
        **_VALUES,
        "sep": "separator",
        "delimiter": "separator",
        "quote": "quote",
        "escape": "escape",
        "header": "header",
        "nullValue": "null_value",
        "emptyValue": "empty_value",
        "comment": "comment",
        "ignoreLeadingWhiteSpace": "strip_left",
        "ignoreTrailingWhiteSpace": "strip_right",
    },
    "parquet": {
        "mode": "mode",
        "columnNameOfCorruptRecord": "corrupt_column",
        "datetimeRebaseMode": "calendar",
        "int96RebaseMode": "int96_calendar",
        "truncate": "truncate",
        "timeZone": "time_zone",
    },
    "rows": {"mode": "mode", "columnNameOfCorruptRecord": "corrupt_column"},
}
"""Format, or rows -> the name of each option, in Spark's spelling -> the attribute of `ReadOptions`."""
_BY_LOWER: Final = {kind: {name.lower(): own for name, own in names.items()} for kind, names in NAMES.items()}


@dataclass(frozen=True, kw_only=True)
class ReadOptions:
    """How the files of a read are to be understood. The defaults are RFC 4180 and RFC 8259 in UTF-8."""

    separator: str = ","
    quote: str = '"'
    """The quotation mark; the empty text: there is none."""
    escape: str | None = None
    """The character that makes the next one ordinary inside quotes; None: quotes are doubled."""
    header: bool = True
    multi_line: bool = True
    """Whether a CSV value in quotes may have line breaks. A JSON file is read alike in both cases."""
    line_separator: str | None = None
    """None: as the first line of each file ends."""
    encoding: str | None = None
    """Python's name of the encoding. None: UTF-8, or as the file's byte order mark says."""
    null_value: str = ""
    empty_value: str = ""
    """What an empty text in quotes is read as."""
    comment: str | None = None
    """The character that begins a line which is no record."""
    strip_left: bool = False
    strip_right: bool = False
    date_format: str | None = None
    """Spark's pattern of dates; None: `YYYY-MM-DD`."""
    timestamp_format: str | None = None
    timestamp_ntz_format: str | None = None
    time_zone: str = "UTC"
    """The zone of time stamps that name none."""
    mode: Mode | None = None
    """What becomes of a bad record. None: it fails the read, unless the schema has the corrupt column."""
    corrupt_column: str | None = None
    """The column of the text of bad records. None: as the session's setting says."""
    calendar: Calendar | None = None
    """The calendar of Parquet's days and moments before 1582 where the file does not tell it."""
    int96_calendar: Calendar | None = None
    truncate: bool = False
    """Whether nanoseconds may be cut off."""

    @classmethod
    def of(cls, kind: str, given: Mapping[str, Any]) -> ReadOptions:
        """The options for files of the format `kind`. Raises `AssetJobError` for what is unknown or has no meaning."""
        names = _BY_LOWER[kind]
        values: dict[str, Any] = {}
        for name, value in given.items():
            own = names.get(name.lower())
            if own is None:
                raise AssetJobError(
                    f"the option {name} is not one of reading {kind}: remove it, or use one of {', '.join(NAMES[kind])}"
                )
            values[own] = _value(name, own, value)
        options = replace(cls(), **values)
        _check_apart(options)
        return options

    def mode_with(self, corrupt: str | None, names: Container[str]) -> Mode:
        """What becomes of bad records in a read whose schema has these names, `corrupt` being that of the corrupt column."""
        return self.mode or ("PERMISSIVE" if corrupt in names else "FAILFAST")


def _value(name: str, own: str, value: Any) -> Any:
    """An option's value in the type of its attribute. Raises `AssetJobError`."""
    if own in _ONE_OF:
        return _one_of(name, str(value).upper(), _ONE_OF[own])
    if own in _FLAGS:
        return _one_of(name, str(value).lower(), ("true", "false")) == "true"
    text = str(value)
    if own == "separator" and text == r"\t":
        return "\t"
    if own in {"separator", "line_separator", "encoding", "time_zone"} and not text:
        raise AssetJobError(f"the option {name} is empty: remove it, or give a value")
    if own in _CHECKS:
        _CHECKS[own](name, text)
    return (text or None) if own in {"escape", "comment"} else text


def _check_character(name: str, text: str) -> None:
    if len(text) > 1 or not text.isascii():
        raise AssetJobError(f"the option {name} is one character of ASCII, not {text!r}")


def _check_apart(options: ReadOptions) -> None:
    """Raise `AssetJobError` for a character of CSV that would have two meanings, because values would be lost."""
    escape = "" if options.escape == options.quote else options.escape
    marks = {"sep": options.separator, "quote": options.quote, "escape": escape, "comment": options.comment}
    taken = dict.fromkeys("\n\r", "a line end")
    for name, mark in marks.items():
        if clash := next((character for character in mark or "" if character in taken), None):
            raise AssetJobError(
                f"the option {name} has {clash!r}, which is also {taken[clash]}: name another character"
            )
        taken |= dict.fromkeys(mark or "", name)


def _check_zone(name: str, text: str) -> None:
    try:
        ZoneInfo(text)
    except (ZoneInfoNotFoundError, ValueError):
        raise AssetJobError(f"the option {name} names a zone such as Europe/Berlin, not {text!r}") from None


def _check_encoding(name: str, text: str) -> None:
    try:
        "".encode(text)
    except LookupError:
        raise AssetJobError(f"the option {name} names an encoding such as ISO-8859-1, not {text!r}") from None


def _check_pattern(name: str, text: str) -> None:
    try:
        expression(text)
    except AssetJobError as error:
        raise AssetJobError(f"the option {name} cannot be used: {error}") from None


def _one_of(name: str, text: str, choices: tuple[str, ...]) -> str:
    if text not in choices:
        raise AssetJobError(f"the option {name} is one of {', '.join(choices)}, not {text!r}")
    return text


_ONE_OF: Final = {"mode": get_args(Mode), "calendar": get_args(Calendar), "int96_calendar": get_args(Calendar)}
_FLAGS: Final = {"header", "multi_line", "strip_left", "strip_right", "truncate"}
_CHECKS: Final[Mapping[str, Callable[[str, str], None]]] = {
    "quote": _check_character,
    "escape": _check_character,
    "comment": _check_character,
    "encoding": _check_encoding,
    "time_zone": _check_zone,
    "date_format": _check_pattern,
    "timestamp_format": _check_pattern,
    "timestamp_ntz_format": _check_pattern,
}
