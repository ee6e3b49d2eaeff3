"""Partition keys of files, from the names of the folders that they are in.

`"dt={dt}"` gives `2026-11-20` for `dt=2026-11-20/orders.csv`. Named parts, `{day: "dt={}", region: "region={}"}`, are sought each
by itself, and joined by `|` in this order.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Final, TypeAlias

from pydantic import AfterValidator

from triggers.partition_keys import LONGEST, KeyedItems, is_key, key_of_parts

_PLACEHOLDER: Final = re.compile(r"\{(\w*)\}")


@dataclass(frozen=True)
class FolderTemplate:
    """A template for consecutive folders, each of which it matches as a whole. Raises ValueError for one without a placeholder."""

    text: str

    def __post_init__(self) -> None:
        rest = _PLACEHOLDER.sub("", self.text)
        if rest == self.text or "{" in rest or "}" in rest:
            raise ValueError(
                f"`{self.text}` has no place for a value; write it like `dt={{dt}}`, with the value in braces"
            )
        if not all(self.text.split("/")):
            raise ValueError(f"`{self.text}` names an empty folder; leave out the `/` at its ends, and double ones")

    @property
    def places(self) -> int:
        """The number of its placeholders."""
        return len(_PLACEHOLDER.findall(self.text))

    def values(self, folders: Sequence[str]) -> Sequence[str] | None:
        """The values of the first folders that match, in the template's order; None where none do."""
        patterns = [_expression(folder) for folder in self.text.split("/")]
        for first in range(len(folders) - len(patterns) + 1):
            matches = [each.fullmatch(folder) for each, folder in zip(patterns, folders[first:], strict=False)]
            if all(matches):
                return [value for match in matches if match for value in match.groups()]
        return None


def _expression(folder: str) -> re.Pattern[str]:
    literals = _PLACEHOLDER.split(folder)[::2]  # the others are the placeholders' names
    return re.compile("(.*?)".join(map(re.escape, literals)), re.DOTALL)


def _checked(partition: str | Mapping[str, str]) -> str | Mapping[str, str]:
    if isinstance(partition, str):
        FolderTemplate(partition)
    elif not partition:
        raise ValueError('has no parts; name some, as in {day: "dt={}"}, or leave it out')
    else:
        for name, template in partition.items():
            if FolderTemplate(template).places != 1:
                raise ValueError(f"the part {name} has several places for a value; give each part one, as in `dt={{}}`")
    return partition


Partition: TypeAlias = Annotated[str | dict[str, str], AfterValidator(_checked)]
"""What the YAML says of a watcher's partition keys."""


class FolderKeys:
    """Gives files their partition keys, and remembers those that have none since the watcher's start."""

    __slots__ = ("_partition", "_templates", "items")

    def __init__(self, partition: str | Mapping[str, str]) -> None:
        self._partition = partition
        texts = [partition] if isinstance(partition, str) else [*partition.values()]
        self._templates = [FolderTemplate(text) for text in texts]
        remedy = (
            "correct `partition`, which is matched against whole names of folders, or the folders; a key has at most "
            f"{LONGEST} characters"
        )
        self.items = KeyedItems(what="file", remedy=remedy)
        """Divides files by their keys."""

    def key_of(self, name: str) -> str | None:
        """The key of a file by its name below the watched place; None if its folders give none that is valid."""
        folders = name.split("/")[:-1]
        each = [template.values(folders) for template in self._templates]
        if isinstance(self._partition, str):
            key = "|".join(each[0] or ())
        else:
            key = key_of_parts(["".join(part or ()) for part in each]) or ""
        return key if is_key(key) else None
