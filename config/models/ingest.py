"""The options of the application `builtin:ingest`."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import Field, ValidationInfo, field_validator

from config.models.values import ConnectionName, Place, located
from config.section import Section

BUILTIN: Final = "builtin:"
INGEST: Final = "builtin:ingest"


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
    bad_records: Place | None = None
    """Folder for rows that do not fit; null is `<target>_bad`."""
    input_format: Literal["json", "csv", "text", "parquet"] | None = None
    """Format of the files; null derives it from their names."""
    missing: Literal["fail", "skip"] = "fail"
    """What happens when a file was deleted or overwritten since it was detected: `fail` fails the run, `skip` ignores the
    file."""
    connection: ConnectionName | None = None
    """The connection to read by, if `spark.connections` lists several of a kind."""
    target_connection: ConnectionName | None = None
    """The connection to write by, if `spark.connections` lists several of a kind; for `format: iceberg` the catalog."""

    @field_validator("target")
    @classmethod
    def _locate(cls, target: str | None, info: ValidationInfo) -> str | None:
        return target if target is None or info.data.get("format") == "iceberg" else located(target, info)

    @field_validator("schema_evolution")
    @classmethod
    def _check_evolution(cls, evolution: str, info: ValidationInfo) -> str:
        if evolution == "add_columns" and info.data.get("format") == "parquet":
            raise ValueError(
                "`add_columns` needs `format: delta` or `iceberg`: a Parquet table has no schema that could get columns"
            )
        return evolution
