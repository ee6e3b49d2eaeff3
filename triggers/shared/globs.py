"""Globs of keys, translated into regular expressions (pure)."""

from __future__ import annotations

import re
from typing import Final

WILDCARDS: Final = re.compile(r"[*?\[]")


def glob_expression(glob: str) -> re.Pattern[str]:
    """Translate a glob into a regular expression that matches the whole key.

    `*` and `?` stop at `/`, `**/` is zero or more folders, `/**` at the end is all below, `[a-c]` and `[!a-c]` are one
    character. A `[` that begins no set, as in `[]`, stands for itself.
    """
    return re.compile(rf"\A{_TOKEN.sub(_translated, glob)}\Z", re.DOTALL)


def exclude_each_other(glob: str, other: str) -> bool:
    """Return whether certainly no key matches both globs, by the ends of their names."""
    name, others = glob.rpartition("/")[2], other.rpartition("/")[2]
    if WILDCARDS.search(name) is None:
        return glob_expression(others).search(name) is None and not others.startswith("**")
    ends = [each.removeprefix("*") for each in (name, others)]
    if any(WILDCARDS.search(end) for end in ends):
        return False
    return not (ends[0].endswith(ends[1]) or ends[1].endswith(ends[0]))


_TOKEN: Final = re.compile(
    r"(?P<folders>(?<![^/])\*\*/)|(?P<below>(?<![^/])\*\*\Z)|(?P<name>\*+)|(?P<one>\?)|(?P<set>\[!?+(?:\][^\]/]*|[^\]/]+)\])|(?P<literal>.)",
    re.DOTALL,
)
_MEMBER: Final = re.compile(r"(.)-(.)|.", re.DOTALL)
_TRANSLATIONS: Final = {"folders": "(?:.*/)?", "below": ".*", "name": "[^/]*", "one": "[^/]"}


def _translated(token: re.Match[str]) -> str:
    if token["set"] is not None:
        return _character_set(token["set"])
    return _TRANSLATIONS.get(token.lastgroup or "") or re.escape(token[0])


def _character_set(token: str) -> str:
    negated = token.startswith("[!")
    members = _MEMBER.sub(_escaped, token[2 if negated else 1 : -1])
    return f"(?!/)[{'^' if negated else ''}{members}]"


def _escaped(member: re.Match[str]) -> str:
    """A character of a set or a range of them, also one from or to a dash."""
    return re.escape(member[0]) if member[1] is None else f"{re.escape(member[1])}-{re.escape(member[2])}"
