"""The values that a table's folders encode, as Hive and Spark name them: `day=2026-01-31`."""

from __future__ import annotations

from urllib.parse import unquote

NO_VALUE = "__HIVE_DEFAULT_PARTITION__"
"""Stands for null in the name of a folder."""


def partition_values(path: str) -> dict[str, str | None]:
    """The values that the folders of a file's path encode: column -> value."""
    parts = [part.partition("=") for part in path.split("/")[:-1]]
    return {unquote(name): None if value == NO_VALUE else unquote(value) for name, equals, value in parts if equals}
