"""Pure functions from a source and a target to the files of `watcher init`: a configuration, a job and its test."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, TypeAlias
from urllib.parse import quote, unquote, urlsplit

_PLACES: Final = "a folder, s3://bucket/prefix/ or postgres://user@host/database/schema/table"
_TABLE: Final = 2
"""The number of parts that name a schema's table in a path, after the database."""


TableFormat: TypeAlias = Literal["parquet", "delta", "iceberg"]


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
    test = _TEST_OF_ROWS if source.kind == "postgres" else _TEST_OF_FILES
    written = _TESTS_OF_FORMATS[loading.format]
    return {
        "watchers.yaml": _configuration(source, target, loading),
        f"jobs/load_{name}.py": _JOB.format(
            source=source.uri,
            target=target.uri,
            name=name,
            watched=watched,
            append=_APPENDS[loading.format].format(name=name),
        ),
        f"tests/test_load_{name}.py": test.format(
            name=name,
            watched=watched,
            imports=written.imports,
            connections=written.connections,
            rows=written.rows.format(name=name),
        ),
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


_JOB: Final = '''\
"""Loads what is new in {source} into {target}."""

from asset_job import run


def load(r, new):
    """`new` is a DataFrame of exactly what this run's events name; a repetition replaces what an earlier try has written."""
    out = {append}
    with r.asset_store["{name}"].transaction() as t:
        t.increment("total_rows", out.rows)
    r.outlet_events["{name}"].extra = {{"row_count": out.rows}}


def main():
    with run() as r:
        if "{watched}" not in r.triggering_asset_events:
            r.skip("started by hand: there is nothing new")
        load(r, r.read(r.triggering_asset_events["{watched}"]))


if __name__ == "__main__":
    main()
'''

_APPENDS: Final[Mapping[TableFormat, str]] = {
    "parquet": 'r.append(new, "{name}")',
    "delta": 'r.append(new, "{name}", format="delta")',
    "iceberg": 'r.append(new, "loaded.{name}", format="iceberg", connection="ice")',
}


@dataclass(frozen=True, kw_only=True)
class WrittenTable:
    """How the job's test reads what the job has written: parts of Python."""

    rows: str
    imports: str = ""
    connections: str = "{}"


_ICE: Final = """{
        "ice": {
            "type": "iceberg",
            "catalog": "sql",
            "uri": f"sqlite:///{tmp_path / 'catalog.db'}",
            "warehouse": (tmp_path / "warehouse").as_uri(),
        }
    }"""
_TESTS_OF_FORMATS: Final[Mapping[TableFormat, WrittenTable]] = {
    "parquet": WrittenTable(rows='[row.id for row in r.spark.read.parquet(str(tmp_path / "{name}")).collect()]'),
    "delta": WrittenTable(
        rows='DeltaTable(str(tmp_path / "{name}")).to_pyarrow_table()["id"].to_pylist()',
        imports="from deltalake import DeltaTable\n",
    ),
    "iceberg": WrittenTable(
        rows='_catalog(connections["ice"]).load_table("loaded.{name}").scan().to_arrow()["id"].to_pylist()',
        imports="""from pyiceberg.catalog import load_catalog


def _catalog(ice):
    return load_catalog("ice", type="sql", uri=ice["uri"], warehouse=ice["warehouse"])
""",
        connections=_ICE,
    ),
}
_TEST_BEGINS: Final = '''\
"""Runs the job with Spark and a folder, without a daemon: `python -m pytest tests`, by the Python that has Asset Watcher."""

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "jobs"))

import load_{name}
from asset_job import run
{imports}

def test_what_is_new_is_loaded(tmp_path):
    outlet = {{"name": "{name}", "uri": (tmp_path / "{name}").as_uri()}}
    connections = {connections}
    (tmp_path / "job.json").write_text(json.dumps({{"outlets": [outlet], "connections": connections}}))
'''
_TEST_ENDS: Final = """\
        ids = {rows}
    assert sorted(ids) == [1, 2]

    finish = json.loads((tmp_path / "finish.json").read_text())
    assert finish["outlet_events"] == [{{"asset": "{name}", "extra": {{"row_count": 2}}}}]
    entries = json.loads((tmp_path / "asset_store.json").read_text())["{name}"]
    assert entries["total_rows"]["value"] == 2
"""
_TEST_OF_FILES: Final = (
    _TEST_BEGINS
    + """\
    new = tmp_path / "new.json"
    new.write_text('{{"id": 1, "amount": 2.5}}\\n{{"id": 2, "amount": 3}}\\n')
    events = {{"{watched}": [{{"extra": {{"files": [{{"path": str(new)}}]}}}}]}}
    (tmp_path / "events.json").write_text(json.dumps(events))

    with run(local=tmp_path) as r:
        load_{name}.load(r, r.read(r.triggering_asset_events["{watched}"]))
"""
    + _TEST_ENDS
)
_TEST_OF_ROWS: Final = (
    _TEST_BEGINS
    + """\

    with run(local=tmp_path) as r:
        new = r.spark.createDataFrame([(1, 2.5), (2, 3.0)], "id long, amount double")  # as the table has them
        load_{name}.load(r, new)
"""
    + _TEST_ENDS
)
