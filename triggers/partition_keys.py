"""Partition keys that triggers give their events: from named parts, and only those that an event can have."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final, TypeVar

from triggers.base import Finding

LONGEST: Final = 250
"""The most characters of a key."""
ItemT = TypeVar("ItemT")


def key_of_parts(values: Sequence[str | None]) -> str | None:
    r"""Return the values joined by `|`, with `\` before each `|` and `\` in them; blank ones are empty. None if all are."""
    texts = [value if value is not None and value.strip() else "" for value in values]
    return "|".join(text.replace("\\", "\\\\").replace("|", "\\|") for text in texts) if any(texts) else None


def is_key(key: str) -> bool:
    """Whether an event can have this key."""
    surrogates = any(unicodedata.category(character) == "Cs" for character in key)
    return bool(key.strip()) and len(key) <= LONGEST and "\0" not in key and not surrogates


def valid_key(key: str | None) -> str | None:
    """Return the key if an event can have it."""
    return key if key is not None and is_key(key) else None


@dataclass(kw_only=True)
class KeyedItems:
    """Divides items among events by their keys, and remembers the items without one since the watcher's start.

    `what` is the word for an item, `remedy` what a person can do about those without a key.
    """

    what: str
    remedy: str
    without: int = 0
    first: str = ""

    def divided(
        self, items: Iterable[ItemT], key_of: Callable[[ItemT], str | None], name_of: Callable[[ItemT], str]
    ) -> Sequence[tuple[str | None, Sequence[ItemT]]]:
        """The items by their keys: in order of the keys, null last, and those of one key in the order given."""
        keyed = [(self._noted(key_of(item), item, name_of), item) for item in items]
        keyed.sort(key=lambda pair: (pair[0] is None, pair[0] or ""))
        return [(key, [item for _, item in pairs]) for key, pairs in groupby(keyed, key=lambda pair: pair[0])]

    @property
    def findings(self) -> Sequence[Finding]:
        """A warning if some items had no key."""
        if not self.without:
            return ()
        number = f"{self.without:,} {self.what}{'s have' if self.without > 1 else ' has'} no partition key"
        return [Finding.warning("partition", f"{number}; the first: {self.first}", self.remedy)]

    def _noted(self, key: str | None, item: ItemT, name_of: Callable[[ItemT], str]) -> str | None:
        if (valid := valid_key(key)) is not None:
            return valid
        self.first = self.first or name_of(item)
        self.without += 1
        return None
