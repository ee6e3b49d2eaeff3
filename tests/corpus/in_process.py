"""The way `parser`: the parsers alone, in this process, in blocks of random sizes."""

from __future__ import annotations

import io
import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO

import pyarrow as pa

from asset_job.errors import AssetJobError
from asset_job.sources.formats import FORMATS
from asset_job.sources.options import ReadOptions
from asset_job.sources.packing import unpacked_if_named
from asset_job.sources.records import BadRecord
from tests.corpus.canonical import rows_of
from tests.corpus.ddl import columns, spelled
from tests.corpus.model import Input, Reading


@dataclass(frozen=True, kw_only=True)
class FileInMemory:
    """Implements `OpenFile`. It is given out in blocks of at most `largest` bytes; None: in one."""

    name: str
    content: bytes
    largest: int | None = None
    seed: int = 0
    part: tuple[int, int] | None = None

    @property
    def size(self) -> int:
        return len(self.content)

    def pieces(self) -> Iterator[bytes]:
        if self.part is not None:
            yield from self._cut(self.content[slice(*self.part)])
        else:
            for piece in unpacked_if_named(io.BytesIO(self.content), self.name):
                yield from self._cut(piece)

    def _cut(self, piece: bytes) -> Iterator[bytes]:
        chance = random.Random(self.seed)
        while piece:
            size = len(piece) if self.largest is None else chance.randint(1, self.largest)
            yield piece[:size]
            piece = piece[size:]

    def seekable(self) -> IO[bytes]:
        return io.BytesIO(self.content)


def read(inputs: Input, largest: int | None = None, seed: int = 0) -> Reading:
    """What the parser makes of a file."""
    file = FileInMemory(name=inputs.file, content=inputs.content, largest=largest, seed=seed)
    try:
        options = ReadOptions.of(inputs.source, inputs.options)
        schema, types = inputs.schema, None
        if schema is None:
            inference = FORMATS[inputs.source].inference(options)
            schema = inference.schema([inference.inferred(file)])
            types = spelled(schema)
        parser = FORMATS[inputs.source].parser(columns(schema), options)
        rows, bad = [], []
        for parsed in parser.parse(file):
            if isinstance(parsed, BadRecord):
                bad.append((parsed.record, parsed.count))
            else:
                parsed.validate(full=True)
                rows += rows_of(parsed)
    except (AssetJobError, pa.ArrowException, ValueError, EOFError) as error:
        return Reading(refused=f"{file.name}: {error}" if not isinstance(error, AssetJobError) else str(error))
    return Reading(rows=rows, bad=bad, types=types)
