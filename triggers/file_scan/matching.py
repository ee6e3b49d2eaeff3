"""The selection of keys: a glob that must match the whole key, or a regular expression that is searched in it."""

from __future__ import annotations

import re
from dataclasses import dataclass

from triggers.shared.globs import WILDCARDS, glob_expression


@dataclass(frozen=True, kw_only=True, slots=True)
class Matcher:
    """A pattern for keys. `literal` starts every key that can match; `depth` bounds the folders above a key, None: it does not."""

    expression: re.Pattern[str] | None = None
    literal: str = ""
    depth: int | None = None

    @classmethod
    def of(cls, *, match: str | None, regex: str | None) -> Matcher:
        """Make a matcher of a glob or a regular expression. At most one is given; neither selects all. Raises `re.error`."""
        if match is not None:
            depth = None if "**" in match else match.count("/")
            return cls(expression=glob_expression(match), literal=WILDCARDS.split(match, maxsplit=1)[0], depth=depth)
        return cls(expression=None if regex is None else re.compile(regex))

    def __call__(self, key: str) -> bool:
        return self.expression is None or self.expression.search(key) is not None
