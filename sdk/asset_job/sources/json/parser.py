"""Parse files of JSON into columns."""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from asset_job.errors import SourceInvalid
from asset_job.sources.json.columns import JsonColumns
from asset_job.sources.json.plain import PlainLines
from asset_job.sources.json.values import JsonValues, Value
from asset_job.sources.options import ReadOptions
from asset_job.sources.records import BadRecord, OpenFile, Parsed
from asset_job.sources.texts.encodings import decoded

_MOST: Final = 4 << 20
"""Characters that are read by Arrow at a time, and of values that become a batch."""
_FEWEST: Final = 4 << 10
"""Characters of lines that are not halved any more, where Arrow cannot read them."""


@dataclass(frozen=True, kw_only=True)
class JsonParser:
    """Reads the values of a file one after another; lines of plain objects by Arrow."""

    columns: pa.Schema
    options: ReadOptions

    def parse(self, file: OpenFile) -> Iterator[Parsed]:
        values, columns = json_values(file, self.options), JsonColumns(self.columns, self.options)
        plain = PlainLines(columns)
        most = slowly = _MOST
        pending: list[Value | BadRecord] = []
        left = length = 0
        while values.is_left():
            if values.at_line and left <= 0 and (lines := values.ahead(most)):
                batch = plain.read(lines)
                if batch is not None:
                    yield from columns.parsed(pending)
                    yield batch
                    values.skip(len(lines))
                    pending, length, most, slowly = [], 0, min(most * 2, _MOST), _FEWEST
                    continue
                if most > _FEWEST:
                    most //= 4
                    continue
                left = slowly = min(slowly * 2, _MOST)
            group = values.group()
            pending += group
            size = sum(len(each.text if isinstance(each, Value) else each.record) for each in group)
            left, length = left - size - 1, length + size
            if length > _MOST:
                yield from columns.parsed(pending)
                pending, length = [], 0
        yield from columns.parsed(pending)


def json_values(file: OpenFile, options: ReadOptions) -> JsonValues:
    """The values of a file. Raises `SourceInvalid` for an option that has no meaning."""
    if (options.line_separator or "").strip():
        raise SourceInvalid("values of JSON have nothing but white space between them: remove the option lineSep")
    pieces = decoded(file.pieces(), options.encoding)
    return JsonValues(codecs.iterdecode(pieces, "utf-8", "surrogateescape"), name=file.name)
