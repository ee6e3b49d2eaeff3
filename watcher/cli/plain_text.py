"""Text of other people made harmless for a terminal, and times as people read them."""

from __future__ import annotations

import re
from typing import Final

_UNSEEN: Final = re.compile(
    "[\x00-\x1f\x7f-\x9f\xad\u061c\u115f\u1160\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ud800-\udfff\ufeff"
    "\ufff9-\ufffb\U000e0000-\U000e007f]"
)
"""Characters that move the cursor, set colors, reverse the direction of writing, or are invisible."""
_UNSEEN_IN_LINES: Final = re.compile(f"(?![\n\t]){_UNSEEN.pattern}")
_UTC: Final = re.compile(r"(\d{4}-\d\d-\d\d)T(\d\d:\d\d:\d\d)(?:\.\d+)?(?:Z|\+00:00)")
_MOST_BASIC: Final = 0xFFFF


def harmless(text: str) -> str:
    """Return `text` in one line. Characters that would affect a terminal or mislead its reader become JSON-like escapes."""
    return _UNSEEN.sub(_escape, text)


def harmless_lines(text: str) -> str:
    """Return `text` made harmless like `harmless` does, with line ends and tabs kept."""
    return _UNSEEN_IN_LINES.sub(_escape, text)


def _escape(match: re.Match[str]) -> str:
    match match[0]:
        case "\n":
            return r"\n"
        case "\t":
            return r"\t"
        case character if ord(character) > _MOST_BASIC:
            return f"\\U{ord(character):08x}"
        case character:
            return f"\\u{ord(character):04x}"


def moment(text: str | None) -> str | None:
    """Return a time of the API, to the second."""
    parts = _UTC.fullmatch(text or "")
    return f"{parts[1]} {parts[2]}Z" if parts else text
