"""The tables of keys in docs/configuration.md, which `tools/configuration_page.py` writes.

A table stands between `<!-- keys: NAME -->` and `<!-- end -->`; the prose around it is written by hand.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any, Final, Literal, get_args, get_origin

from pydantic import SecretStr
from pydantic.fields import FieldInfo

from config.models.assets import AliasConfig, AssetConfig
from config.models.ingest import IngestConfig
from config.models.jobs import JobConfig
from config.models.values import format_duration
from config.section import Section, keys, models_in, parts_of

OF_THE_KERNEL: Final[Mapping[str, type[Section]]] = {
    "assets.NAME": AssetConfig,
    "aliases.NAME": AliasConfig,
    "jobs.NAME": JobConfig,
    "jobs.NAME.spark.options": IngestConfig,
}

_TABLE: Final = re.compile("(?<=<!-- keys: )([a-zA-Z.]+)( -->\n).*?(?=<!-- end -->)", re.DOTALL)


def rewrite(page: str, models: Mapping[str, type[Section]]) -> str:
    """`page` with the tables as the `models` have them. Raises KeyError for a table of an unknown name."""
    return _TABLE.sub(lambda match: f"{match[1]}{match[2]}\n{_tables(models[match[1]], match[1])}\n", page)


def _tables(model: type[Section], path: str) -> str:
    """A table of the model's own keys, then a table for each mapping within it."""
    fields, meanings = keys(model), model.meanings()
    inner = {name: part for name, field in fields.items() if (part := _model_of(field.annotation))}
    own = {name: field for name, field in fields.items() if name not in inner}
    rows = [
        f"| `{name}` | {_default(field, meanings[name])} | {_meaning(field, meanings[name])} |"
        for name, field in own.items()
    ]
    tables = ["\n".join(["| key | default | meaning |", "|---|---|---|", *rows, ""])] if rows else []
    for name, part in inner.items():
        tables.append(f"**`{path}.{name}`**: {_meaning(fields[name], meanings[name])}\n")
        tables.append(_tables(part, f"{path}.{name}"))
    return "\n".join(tables)


def _model_of(annotation: Any) -> type[Section] | None:
    """The model of a mapping with fixed keys, which may be null; None for any other type."""
    if get_origin(annotation) is dict:
        return None
    return next((part for part in models_in(annotation) if issubclass(part, Section)), None)


def _default(field: FieldInfo, meaning: str) -> str:
    """The default as it stands in the table; "" if it depends on other values, which the meaning then says."""
    if "Default:" in meaning:
        return ""
    if field.is_required():
        return "required"
    return f"`{_as_yaml(field.get_default(call_default_factory=True))}`"


def _as_yaml(value: Any) -> str:
    if isinstance(value, timedelta):
        return format_duration(value)
    return str(value) if isinstance(value, str | Path) else json.dumps(value)


def _meaning(field: FieldInfo, text: str) -> str:
    text = " ".join(text.split())
    secret = "Secret. " if SecretStr in parts_of(field.annotation) else ""
    if get_origin(field.annotation) is Literal:
        text = f"{text} One of {', '.join(f'`{value}`' for value in get_args(field.annotation))}."
    return f"{secret}{text}"
