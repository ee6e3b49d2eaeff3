"""A file in memory, for parsers of files."""

from __future__ import annotations

import io
import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO


@dataclass(frozen=True)
class InMemory:
    """A file in memory that comes in pieces of random sizes."""

    body: bytes
    seed: int = 0
    longest: int = 5
    """Bytes of the longest piece."""
    name: str = "a.txt"
    part: tuple[int, int] | None = None

    @property
    def size(self) -> int:
        return len(self.body)

    def pieces(self) -> Iterator[bytes]:
        sizes, at = random.Random(self.seed), 0
        while at < len(self.body):
            size = sizes.randint(1, self.longest)
            yield self.body[at : at + size]
            at += size

    def seekable(self) -> IO[bytes]:
        return io.BytesIO(self.body)
