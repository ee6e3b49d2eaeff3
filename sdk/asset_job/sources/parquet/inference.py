"""Infer the columns of Parquet files from their footers: those of all files, in types that lose nothing of any file."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from asset_job.errors import FileInvalid
from asset_job.sources.options import ReadOptions
from asset_job.sources.parquet.content import ParquetContent
from asset_job.sources.parquet.sparktypes import in_spark, joined, spark_type
from asset_job.sources.records import OpenFile
from asset_job.sources.request import quoted


@dataclass(frozen=True, kw_only=True)
class ParquetInference:
    """Infers the columns of Parquet files. Implements `SchemaInference`."""

    options: ReadOptions

    def inferred(self, file: OpenFile) -> str:
        """The file's name and columns. Raises `FileInvalid` for what Spark has not."""
        fields = ParquetContent.of(file).fields()
        _check_names(f"{file.name}: the file", pa.struct(fields))
        columns = []
        for field in fields:
            try:
                columns.append(pa.field(field.name, in_spark(field.type)))
            except TypeError:
                raise FileInvalid(
                    f"{file.name}: the column {field.name} has the type {field.type}, which Spark has not: write it in "
                    "another type, or give a schema without the column"
                ) from None
        return json.dumps([file.name, base64.b64encode(pa.schema(columns).serialize()).decode()])

    def schema(self, results: Sequence[str]) -> str:
        """The columns of all files, in the order in which they come first. Raises `FileInvalid` where two do not agree."""
        columns: dict[str, tuple[pa.Field, str]] = {}
        for name, fields in map(json.loads, results):
            for field in pa.ipc.read_schema(pa.py_buffer(base64.b64decode(fields))):
                known, file = columns.get(field.name.lower(), (field, name))
                try:
                    kind = joined(known.type, field.type)
                except TypeError:
                    raise FileInvalid(
                        f"the column {field.name} is {spark_type(known.type)} in {file} and {spark_type(field.type)} in "
                        f"{name}, and no type has the values of both: read them apart, or give a schema"
                    ) from None
                columns[field.name.lower()] = (known.with_type(kind), file if kind == known.type else name)
        return ", ".join(f"{quoted(field.name)} {spark_type(field.type)}" for field, _ in columns.values())


def _check_names(where: str, kind: pa.DataType) -> None:
    """Raise `FileInvalid` if two columns, or two members of a struct, have one name to Spark."""
    seen: dict[str, str] = {}
    for field in (kind.field(at) for at in range(kind.num_fields if pa.types.is_nested(kind) else 0)):
        if field.name.lower() in seen:
            both = f"{seen[field.name.lower()]} and {field.name}"
            raise FileInvalid(f"{where} has the names {both}, which are one to Spark: rename one of them")
        seen[field.name.lower()] = field.name
        _check_names(f"{where}, column {field.name}", field.type)
