"""Pure functions from a source and a target to the files of `watcher init`: a configuration, a job and its test."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal
from urllib.parse import quote, unquote, urlsplit

from watcher.features.init.first_job import TableFormat, job, text_of_test

_PLACES: Final = "a folder, s3://bucket/prefix/ or postgres://user@host/database/schema/table"
_TABLE: Final = 2
"""The number of parts that name a schema's table in a path, after the database."""


class PlaceInvalid(ValueError):
    """A text that is no valid source or target. The sentence says what would be."""


@dataclass(frozen=True, kw_only=True)
class Endpoint:
    """A source or a target. `uri` is the asset's; `dsn` is a PostgreSQL connection without its password."""

    kind: Literal["folder", "s3", "postgres"]
    uri: str
    name: str
    dsn: str = ""
    table: str = ""


def source_of(text: str, working_folder: Path) -> Endpoint:
    """Parse a source. Raises `PlaceInvalid`."""
    parts = urlsplit(text)
    if parts.scheme in {"postgres", "postgresql"}:
        return _table(text)
    if parts.scheme == "s3" and parts.netloc:
        prefix = parts.path.strip("/")
        uri = f"s3://{parts.netloc}/{prefix}{'/' if prefix else ''}"
        return Endpoint(kind="s3", uri=uri, name=_name(prefix.rpartition("/")[2] or parts.netloc))
    if parts.scheme not in {"", "file"} or not text:
        raise PlaceInvalid(f"{text} is no place that a shipped trigger watches; give {_PLACES}")
    folder = (working_folder / unquote(parts.path) if parts.scheme else working_folder / text).resolve()
    return Endpoint(kind="folder", uri=folder.as_uri(), name=_name(folder.name))


def target_of(text: str, working_folder: Path) -> Endpoint:
    """Parse a target. Raises `PlaceInvalid`."""
    if text.startswith(("postgres:", "postgresql:")):
        raise PlaceInvalid("the job writes files of a table; give a folder or s3://bucket/prefix as the target")
    target = source_of(text, working_folder)
    return Endpoint(kind=target.kind, uri=target.uri.rstrip("/"), name=target.name)


def check_apart(source: Endpoint, target: Endpoint) -> None:
    """Raise `PlaceInvalid` when the job's own files would be found as new."""
    if f"{target.uri.rstrip('/')}/".startswith(f"{source.uri.rstrip('/')}/"):
        raise PlaceInvalid(
            f"{target.uri} lies in {source.uri}, so that each load would start the next; choose another target"
        )


@dataclass(frozen=True, kw_only=True)
class Loading:
    """How what is new is loaded: the `name` of the table, its `format`, and what the connections need.

    `endpoint` is the address of an S3 server that is not AWS. `folder` is where the files are written: the catalog of an
    Iceberg table lies there.
    """

    name: str
    format: TableFormat = "parquet"
    match: str | None = None
    endpoint: str | None = None
    folder: Path = Path()

    @property
    def watched(self) -> str:
        return f"new_{self.name}"


def files(source: Endpoint, target: Endpoint, loading: Loading) -> Mapping[str, str]:
    """Return the texts of the files, by path. Raises `PlaceInvalid` for an endpoint that nothing uses."""
    if loading.endpoint is not None and "s3" not in {source.kind, target.kind}:
        raise PlaceInvalid("--endpoint is the address of an S3 server, and neither the source nor the target is s3://…")
    name, watched = loading.name, loading.watched
    of_rows = source.kind == "postgres"
    return {
        "watchers.yaml": _configuration(source, target, loading),
        f"jobs/load_{name}.py": job(source.uri, target.uri, name, watched, loading.format),
        f"tests/test_load_{name}.py": text_of_test(name, watched, loading.format, of_rows=of_rows),
    }


def _name(text: str) -> str:
    """Return the name as a valid module name."""
    word = re.sub(r"\W+", "_", text, flags=re.ASCII).strip("_").lower()
    return f"data_{word}".rstrip("_") if not word or word[0].isdigit() else word


def _table(text: str) -> Endpoint:
    parts = urlsplit(text)
    database, *table = [unquote(part) for part in parts.path.strip("/").split("/")]
    if not parts.hostname or not database or not 1 <= len(table) <= _TABLE or not all(table):
        raise PlaceInvalid("a table is named postgres://user@host:port/database/schema/table")
    schema, name = ["public", *table][-_TABLE:]
    at = f"{parts.hostname}{f':{parts.port}' if parts.port else ''}"
    user = f"{parts.username}@" if parts.username else ""
    return Endpoint(
        kind="postgres",
        uri=f"postgres://{at}/{'/'.join(quote(part, safe='') for part in (database, schema, name))}",
        name=_name(name),
        dsn=f"postgresql://{user}{at}/{quote(database, safe='')}",
        table="" if "." in schema or schema.startswith('"') else f"{schema}.{name}",  # the URI says it, too
    )


def _configuration(source: Endpoint, target: Endpoint, loading: Loading) -> str:
    connections = _connections(source, target, loading)
    name, watched = loading.name, loading.watched
    of_source = {"postgres": "shop", "s3": "lake"}.get(source.kind)
    trigger = {"postgres": "postgres.new_rows", "s3": "s3.new_files", "folder": "file.new_files"}[source.kind]
    lines = [
        "# What is new in the source starts a Spark job that loads it into the target.",
        "# docs/configuration.md lists every key; `check --connect` tries the source.",
        "version: 1",
        "",
        "settings:",
        "  scheduler:",
        "    cancel_jobs: true  # Ctrl-C leaves no Spark behind",
        "",
        *(["connections:", *(line for lines in connections.values() for line in lines), ""] if connections else []),
        "assets:",
        f"  {watched}:",
        f"    uri: {json.dumps(source.uri)}",
        "    watchers:",
        f"      {watched}_{'rows' if source.kind == 'postgres' else 'files'}:",
        f"        trigger: {trigger}",
        *([f"        connection: {of_source}"] if of_source else []),
        *([f"        table: {json.dumps(source.table)}"] if source.table else []),
        *([f"        match: {json.dumps(loading.match)}"] if loading.match else []),
        "        start: all  # also what is there already; `now`: what comes",
        f"  {name}:",
        f"    uri: {json.dumps(target.uri)}",
        "",
        "jobs:",
        f"  load_{name}:",
        f"    schedule: {watched}",
        f"    inlets: [{watched}]",
        f"    outlets: [{name}]",
        "    retries: 1",
        "    spark:",
        f"      application: jobs/load_{name}.py",
        *([f"      connections: [{', '.join(connections)}]"] if connections else []),
    ]
    return "\n".join(lines) + "\n"


def _connections(source: Endpoint, target: Endpoint, loading: Loading) -> dict[str, list[str]]:
    """Return the connections by name, each as lines of YAML."""
    connections = {}
    if source.kind == "postgres":
        dsn = json.dumps(f"${{SHOP_DSN:-{source.dsn}}}")
        comment = "    # SHOP_DSN has the password, in which @ is %40, / %2F, # %23 and % %25."
        connections["shop"] = ["  shop:", "    type: postgres", comment, f"    dsn: {dsn}"]
    if "s3" in {source.kind, target.kind}:
        own = [] if loading.endpoint is None else [f"    endpoint_url: {json.dumps(loading.endpoint)}"]
        comment = "    # Credentials are found as AWS's own tools find them."
        connections["lake"] = ["  lake:", "    type: s3", comment, *own]
    if loading.format == "iceberg":
        catalog = f"sqlite:///{loading.folder.resolve() / 'catalog.db'}"
        storage = ["    storage: lake"] if target.kind == "s3" else []
        addresses = [f"    uri: {json.dumps(catalog)}", f"    warehouse: {json.dumps(target.uri)}"]
        connections["ice"] = ["  ice:", "    type: iceberg", "    catalog: sql", *addresses, *storage]
    return connections
