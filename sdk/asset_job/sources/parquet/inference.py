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
        """The file's name and columns."""
        fields = ParquetContent.of(file).fields()
        _check_names(file.name, "the file", [field.name for field in fields])
        columns = pa.schema([_checked(file.name, field) for field in fields])
        return json.dumps({"file": file.name, "columns": base64.b64encode(columns.serialize()).decode()})

    def schema(self, results: Sequence[str]) -> str:
        """The columns of all files, in the order in which they come first. Raises `FileInvalid` where two do not agree."""
        columns: dict[str, tuple[pa.Field, str]] = {}
        for result in map(json.loads, results):
            for field in pa.ipc.read_schema(pa.py_buffer(base64.b64decode(result["columns"]))):
                known, file = columns.get(field.name.lower(), (field, result["file"]))
                kind = joined(known.type, field.type)
                if kind is None:
                    raise FileInvalid(
                        f"the column {field.name} is {spark_type(known.type)} in {file} and {spark_type(field.type)} in "
                        f"{result['file']}, and no type holds both: read them apart, or give a schema"
                    )
                columns[field.name.lower()] = (known.with_type(kind), file if kind == known.type else result["file"])
        if not columns:
            raise FileInvalid(f"{json.loads(results[0])['file']} has no columns: leave it out")
        return ", ".join(f"{quoted(field.name)} {spark_type(_valued(field.type))}" for field, _ in columns.values())


def _checked(file: str, field: pa.Field) -> pa.Field:
    """A column in Spark's type. Raises `FileInvalid` if there is none, or if two members have one name."""
    kind = in_spark(field.type)
    if kind is None:
        raise FileInvalid(
            f"{file}: the column {field.name} has the type {field.type}, which Spark has not: write it in another type, "
            "or give a schema without the column"
        )
    _check_members(file, field.name, kind)
    return pa.field(field.name, kind)


def _check_members(file: str, path: str, kind: pa.DataType) -> None:
    if pa.types.is_struct(kind):
        _check_names(file, f"the column {path}", [field.name for field in kind])
    for at in range(kind.num_fields if pa.types.is_nested(kind) else 0):
        _check_members(file, f"{path}.{kind.field(at).name}", kind.field(at).type)


def _check_names(file: str, where: str, names: Sequence[str]) -> None:
    seen: dict[str, str] = {}
    for name in names:
        if (same := seen.setdefault(name.lower(), name)) != name or names.count(name) > 1:
            raise FileInvalid(
                f"{file}: {where} has the names {same} and {name}, which are one to Spark: rename one of them"
            )


def _valued(kind: pa.DataType) -> pa.DataType:
    """A type with texts where no file has a value."""
    types = pa.types
    if types.is_null(kind):
        return pa.string()
    if types.is_struct(kind):
        return pa.struct([field.with_type(_valued(field.type)) for field in kind])
    if types.is_map(kind):
        return pa.map_(_valued(kind.key_type), _valued(kind.item_type))
    return pa.list_(_valued(kind.value_type)) if types.is_list(kind) else kind
