"""Infer the columns of CSV: the names of the header, and the types that the texts show."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace

from asset_job.errors import FileInvalid, SourceInvalid
from asset_job.sources.csv.grammar import GoodRecords
from asset_job.sources.csv.opening import OpenCsv, by_encoding, texts_of
from asset_job.sources.options import ReadOptions
from asset_job.sources.records import OpenFile
from asset_job.sources.request import quoted
from asset_job.sources.texts.inference import ShownType

_OTHER_SEPARATORS = ";\t|"


@dataclass(frozen=True, kw_only=True)
class CsvInference:
    """Infers the columns of CSV."""

    options: ReadOptions

    def inferred(self, file: OpenFile) -> str:
        opened = OpenCsv.of(file, self.options, None)
        if opened is None:
            return ""
        count = opened.grammar.fields or 0
        names = opened.header or [f"_c{at}" for at in range(count)]
        self._check(names, file.name)
        shown = [ShownType()] * count
        for segment in opened.grammar.segments(opened.pieces):
            if isinstance(segment, GoodRecords):
                columns = texts_of(by_encoding(segment, opened.grammar)[0], opened.grammar).columns
                shown = [
                    before.joined(ShownType.of(texts, self.options))
                    for before, texts in zip(shown, columns, strict=True)
                ]
        return json.dumps({"file": file.name, "names": names, "shown": list(map(asdict, shown))})

    def _check(self, names: Sequence[str], file: str) -> None:
        """Raise `FileInvalid` if a name comes twice, or the fields seem to be separated by something else."""
        twice = [name for name, count in Counter(name.lower() for name in names).items() if count > 1]
        if twice:
            raise FileInvalid(f"{file} has the column {twice[0]!r} more than once: rename it in the first line")
        separator = next((mark for mark in _OTHER_SEPARATORS if mark in names[0]), None) if len(names) == 1 else None
        if separator:
            raise FileInvalid(
                f"{file} has the single column {names[0]!r}: write the file with commas, or name its separator by the "
                f"option sep: {separator!r}"
            )

    def schema(self, results: Sequence[str]) -> str:
        files = [json.loads(result) for result in results if result]
        if not files:
            raise SourceInvalid(
                "none of the files has a line: give a schema, or skip empty files by the watcher's min_size"
            )
        first = files[0]
        shown = [ShownType()] * len(first["names"])
        for file in files:
            if [name.lower() for name in file["names"]] != [name.lower() for name in first["names"]]:
                raise FileInvalid(
                    f"{file['file']} has the columns {', '.join(file['names'])}, and {first['file']} has "
                    f"{', '.join(first['names'])}: read them apart, or give a schema"
                )
            shown = [
                before.joined(replace(ShownType(), **each)) for before, each in zip(shown, file["shown"], strict=True)
            ]
        return ", ".join(f"{quoted(name)} {each.ddl}" for name, each in zip(first["names"], shown, strict=True))
