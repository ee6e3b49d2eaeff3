"""The options of the application `builtin:ingest`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Final, Literal

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    StrictBool,
    StrictInt,
    StrictStr,
    ValidationInfo,
    WithJsonSchema,
    field_validator,
)

from config.models.ddl import column_names, type_faults
from config.models.values import ConnectionName, Place, located
from config.names import did_you_mean
from config.section import Section

_TEXT: Final = ("encoding", "charset", "lineSep")
_VALUES: Final = (
    "mode",
    "columnNameOfCorruptRecord",
    "dateFormat",
    "timestampFormat",
    "timestampNTZFormat",
    "timeZone",
    "multiLine",
)
INPUT_OPTIONS: Final[Mapping[str, Sequence[str]]] = {
    "text": _TEXT,
    "json": (*_TEXT, *_VALUES),
    "csv": (
        *_TEXT,
        *_VALUES,
        "sep",
        "delimiter",
        "quote",
        "escape",
        "header",
        "nullValue",
        "emptyValue",
        "comment",
        "ignoreLeadingWhiteSpace",
        "ignoreTrailingWhiteSpace",
    ),
    "parquet": ("mode", "columnNameOfCorruptRecord", "datetimeRebaseMode", "int96RebaseMode", "truncate", "timeZone"),
}
"""The names of `input_options` by format: a copy of the job SDK's, which a test compares, because `config` cannot import it."""
BUILTIN: Final = "builtin:"
INGEST: Final = "builtin:ingest"


def _check_share(value: str | int) -> str | int:
    if isinstance(value, int):
        fits = value >= 0
    else:
        share = re.fullmatch(r"(\d{1,3}(?:\.\d{1,9})?)%", value)
        fits = share is not None and float(share[1]) <= 100  # noqa: PLR2004  percent
    if not fits:
        raise ValueError("must be a share such as `50%`, or a number of records such as `0` or `1000`")
    return value


class IngestConfig(Section, title="IngestOptions"):
    """`spark.options` of `builtin:ingest`."""

    format: Literal["parquet", "delta", "iceberg"] = "parquet"
    """Format of the table."""
    target: Annotated[str, Field(min_length=1)] | None = None
    """Folder or URL of the table; for an Iceberg table its name, `<namespace>.<table>`. Null is the uri of the job's outlet."""
    schema_evolution: Literal["strict", "add_columns"] = "strict"
    """What happens to a column that the table does not have: `strict` drops it, `add_columns` adds it to the table. A table of
    `format: parquet` cannot get columns."""
    schema_: Annotated[str | None, Field(alias="schema")] = None
    """Columns as Spark's DDL (`id long, amount double`). Null infers them once and enforces them from then on."""
    partition_by: str | tuple[str, ...] = ()
    """Columns to partition by."""
    dedupe_key: str | tuple[str, ...] | None = None
    """Columns that identify a row. The table gets only one of several rows with the same values."""
    merge: StrictBool = False
    """Whether the table becomes what its source is: the run applies the changes of its events (`mode: log`), or the rows and
    deletions of `mode: updated_at`, by `dedupe_key`. It needs `format: delta` or `iceberg`."""
    bad_records: Place | None = None
    """Folder for records that cannot be read as the schema says; null is `<target>_bad`."""
    max_bad_records: Annotated[StrictStr | StrictInt, AfterValidator(_check_share)] = "50%"
    """The most bad records of a run that succeeds: a share of all its records, if there are at least two, or a number. A run
    with more fails without a retry and writes nothing."""
    input_format: Literal["json", "csv", "text", "parquet"] | None = None
    """Format of the files; null derives it from their names."""
    input_options: dict[str, StrictBool | StrictInt | StrictStr] = Field(default_factory=dict)
    """Options of reading files, by Spark's names, such as `{sep: ";"}`. Each applies to the formats that have it."""
    on_unrepresentable: Annotated[
        Literal["fail", "bad", "null", "text"],
        BeforeValidator(lambda word: "null" if word is None else word),
        WithJsonSchema({"enum": ["fail", "bad", "null", "text", None]}),
    ] = "bad"
    """What happens to a row of PostgreSQL with a value that Spark has no value for, such as `infinity`: it fails the run, is a
    bad record, has null in its place, or the whole column is read as text."""
    missing: Literal["fail", "skip"] = "fail"
    """What happens when a file was deleted or overwritten since it was detected, or is not in its format: `fail` fails the run,
    `skip` leaves the file out. A file that is not in its format then counts as one bad record."""
    connection: ConnectionName | None = None
    """The connection to read by, if `spark.connections` lists several of a kind."""
    target_connection: ConnectionName | None = None
    """The connection to write by, if `spark.connections` lists several of a kind; for `format: iceberg` the catalog."""

    @field_validator("target")
    @classmethod
    def _locate(cls, target: str | None, info: ValidationInfo) -> str | None:
        return target if target is None or info.data.get("format") == "iceberg" else located(target, info)

    @field_validator("schema_")
    @classmethod
    def _check_types(cls, schema: str | None) -> str | None:
        if schema is not None and (faults := [*type_faults(schema)]):
            raise ValueError("; ".join(faults))
        return schema

    @field_validator("partition_by", "dedupe_key")
    @classmethod
    def _check_columns(cls, names: str | tuple[str, ...] | None, info: ValidationInfo) -> str | tuple[str, ...] | None:
        # Files may add the column to a schema that grows.
        schema = None if info.data.get("schema_evolution") == "add_columns" else info.data.get("schema_")
        known = column_names(schema) if schema else []
        lower = {name.lower() for name in known}
        for name in (names,) if isinstance(names, str) else names or ():
            if known and name.lower() not in lower:
                raise ValueError(f"`{name}` is no column of the schema; {did_you_mean(name, known)}")
        return names

    @field_validator("merge")
    @classmethod
    def _check_merge(cls, merge: bool, info: ValidationInfo) -> bool:
        if merge and info.data.get("format") == "parquet":
            raise ValueError("needs `format: delta` or `iceberg`: rows of a Parquet table cannot be changed or deleted")
        if merge and not info.data.get("dedupe_key"):
            raise ValueError("needs `dedupe_key`, the columns of the source's primary key in their order")
        return merge

    @field_validator("input_options")
    @classmethod
    def _check_names(cls, options: dict[str, bool | int | str], info: ValidationInfo) -> dict[str, bool | int | str]:
        kind = info.data.get("input_format")
        known = INPUT_OPTIONS[kind] if kind else [name for names in INPUT_OPTIONS.values() for name in names]
        unknown = [name for name in options if name.lower() not in {each.lower() for each in known}]
        if unknown:
            files = f"{kind} files" if kind else "files"
            raise ValueError(f"`{unknown[0]}` is no option of reading {files}; {did_you_mean(unknown[0], known)}")
        if any(name.lower() == "mode" and str(value).upper() != "PERMISSIVE" for name, value in options.items()):
            raise ValueError(
                "`mode` must be PERMISSIVE: bad records go to the table of bad records, and `max_bad_records: 0` fails a "
                "run that has one"
            )
        return options

    @field_validator("schema_evolution")
    @classmethod
    def _check_evolution(cls, evolution: str, info: ValidationInfo) -> str:
        if evolution == "add_columns" and info.data.get("format") == "parquet":
            raise ValueError(
                "`add_columns` needs `format: delta` or `iceberg`: a Parquet table has no schema that could get columns"
            )
        return evolution
