"""pydantic's validation errors as sentences for the person who wrote the YAML: what was expected and what to do.

No sentence holds a value, but an amount of time, memory or bytes in the form that was meant. Our own validators write their own sentences; every other error is described by its type alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails, InitErrorDetails, PydanticCustomError

from config.amounts import durations_meant, number_meant
from config.errors import KeyPath
from config.names import did_you_mean
from config.section import keys, models_at

_TYPES: Final = {
    "bool": "`true` or `false`",
    "date": "an ISO date such as `2026-11-20`",
    "datetime": "an ISO timestamp such as `2026-11-20T09:00:00Z`",
    "dict": "a mapping (`key: value`)",
    "float": "a number",
    "int": "a whole number",
    "list": "a list (`[a, b]`)",
    "mapping": "a mapping (`key: value`)",
    "model": "a mapping (`key: value`)",
    "none": "`null`",
    "path": "a path",
    "set": "a list (`[a, b]`)",
    "string": "text (put it in quotes)",
    "tuple": "a list (`[a, b]`)",
}
"""What was expected, by the first word of pydantic's error type."""

_LIMITS: Final = {
    "enum": "{expected}",
    "finite_number": "a finite number",
    "greater_than": "more than {gt}",
    "greater_than_equal": "at least {ge}",
    "less_than": "less than {lt}",
    "less_than_equal": "at most {le}",
    "literal_error": "{expected}",
    "string_pattern_mismatch": "text of the form `{pattern}`",
    "string_too_long": "text of at most {max_length} characters",
    "string_too_short": "text of at least {min_length} character(s)",
    "too_long": "of length {max_length} or less",
    "too_short": "of length {min_length} or more",
}
"""What was expected of a value of the right type, by pydantic's error type."""

_IN_BRACKETS: Final = "; put brackets around it: `[…]`"

MISSING: Final = "is missing; add it"

_KINDS: Final = {
    bool: "a truth value",
    dict: "a mapping",
    float: "a number",
    int: "a number",
    list: "a list",
    str: "text",
}


def misplaced(value: Any, *faults: tuple[KeyPath, str]) -> ValidationError:
    """Make the error that a validator raises about places *within* the value that it validates."""
    return ValidationError.from_exception_data(
        "misplaced",
        [
            InitErrorDetails(type=PydanticCustomError("sentence", "{text}", {"text": text}), loc=path, input=value)
            for path, text in faults
        ],
    )


def sentences(error: ValidationError, model: type[BaseModel], data: Any) -> Iterator[tuple[KeyPath, str]]:
    """Yield one sentence for each place in `data` that `model` refused."""
    by_path: dict[KeyPath, list[ErrorDetails]] = {}
    for detail in error.errors(include_url=False):
        if detail["type"] != "default_factory_not_called":  # follows from another error
            by_path.setdefault(_path_in(data, detail), []).append(detail)
    for path, details in by_path.items():
        yield path, _sentence(details, model, path)


def _path_in(data: Any, detail: ErrorDetails) -> KeyPath:
    """The error's place in the YAML, without pydantic's names for keys and for the branches of a union."""
    path: KeyPath = ()
    for part in detail["loc"]:
        if part in (data if isinstance(data, dict) else range(len(data)) if isinstance(data, list) else ()):
            path, data = (*path, part), data[part]
    return (*path, detail["loc"][-1]) if detail["type"] == "missing" else path


def _remedy(detail: ErrorDetails, path: KeyPath) -> str:
    """What to write instead of a duration or a number in another form, as the end of a sentence; "" if that cannot be told."""
    written = detail["input"]
    if detail["type"] == "duration":
        meant = durations_meant(written)
        if len(meant) > 1:
            return f"; with its unit: write {', '.join(f'`{each}`' for each in meant[:-1])} or `{meant[-1]}`"
        return f"; write `{meant[0]}`" if meant else ""
    if detail["type"] in _NUMBERS_IN_TEXT and (number := number_meant(str(path[-1]), written)) is not None:
        unit = next((f", in {unit}" for end, unit in _UNITS_OF_KEYS.items() if str(path[-1]).endswith(end)), "")
        return f"; write `{number}`{unit}"
    return ""


_NUMBERS_IN_TEXT: Final = {"int_parsing", "float_parsing", "bytes"}
_UNITS_OF_KEYS: Final = {"_mb": "MB", "_days": "days", "_bytes": "bytes", "_size": "bytes"}


def _sentence(details: list[ErrorDetails], model: type[BaseModel], path: KeyPath) -> str:
    """One sentence for all errors at one place. There are several when pydantic tried the branches of a union."""
    if details[0]["type"] == "missing":
        return MISSING
    if details[0]["type"] == "extra_forbidden":
        known = {key for each in models_at(model, path[:-1]) for key in keys(each)}
        return f"is not a key here; {did_you_mean(str(path[-1]), sorted(known))}"
    own = [text for detail in details if (text := _own_words(detail))]
    expected = list(dict.fromkeys(text for detail in details if (text := _expectation(detail))))
    if expected:
        given = _instead_of(details[0]) if all(_is_of_wrong_type(detail) for detail in details) else ""
        is_unlisted = given and isinstance(details[0]["input"], str) and expected == [_TYPES["list"]]
        own.insert(0, f"must be {' or '.join(expected)}{given}{_IN_BRACKETS if is_unlisted else ''}")
    remedies = dict.fromkeys(remedy for detail in details if (remedy := _remedy(detail, path)))
    return "; or ".join(own) + next(iter(remedies), "")


def _own_words(detail: ErrorDetails) -> str:
    """The sentence of a validator that raised ValueError or a custom error; "" for any other error."""
    if detail["type"] in {"value_error", "assertion_error"}:
        return str(detail["ctx"]["error"]) or "is not valid"
    return "" if _expectation(detail) else detail["msg"]


def _expectation(detail: ErrorDetails) -> str:
    """What was expected, to follow "must be"; "" when a validator has written its own sentence."""
    kind = detail["type"]
    if kind in _LIMITS:
        return _LIMITS[kind].format_map(detail.get("ctx", {})).replace("'", "`")
    if kind in {"value_error", "assertion_error"}:
        return ""
    if expected := _TYPES.get(kind.partition("_")[0]):
        return expected
    phrase = re.match(r"Input should be ([^,']+)", detail["msg"])
    return phrase[1] if phrase else ""


def _is_of_wrong_type(detail: ErrorDetails) -> bool:
    return detail["type"] not in _LIMITS or (detail["type"] == "literal_error" and not isinstance(detail["input"], str))


def _instead_of(detail: ErrorDetails) -> str:
    return ", not a fraction" if detail["type"] == "int_from_float" else instead(detail["input"])


def instead(value: Any) -> str:
    """What stands there instead, to follow `must be …`. It names the type only."""
    return f", not {_KINDS.get(type(value), 'empty')}"
