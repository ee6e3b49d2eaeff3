"""Pure functions from a source and a target to the files of `watcher init`: a configuration, a job and its test."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal
from urllib.parse import quote, unquote, urlsplit

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
        raise PlaceInvalid("the job writes Parquet; give a folder or s3://bucket/prefix as the target")
    target = source_of(text, working_folder)
    return Endpoint(kind=target.kind, uri=target.uri.rstrip("/"), name=target.name)


def check_apart(source: Endpoint, target: Endpoint) -> None:
    """Raise `PlaceInvalid` when the job's own files would be found as new."""
    if f"{target.uri.rstrip('/')}/".startswith(f"{source.uri.rstrip('/')}/"):
        raise PlaceInvalid(
            f"{target.uri} lies in {source.uri}, so that each load would start the next; choose another target"
        )


def files(source: Endpoint, target: Endpoint, name: str, match: str | None) -> Mapping[str, str]:
    """Return the texts of the files, by path."""
    watched = f"new_{name}"
    return {
        "watchers.yaml": _configuration(source, target, name, watched, match),
        f"jobs/load_{name}.py": _JOB.format(source=source.uri, target=target.uri, name=name, watched=watched),
        f"tests/test_load_{name}.py": (_TEST_OF_ROWS if source.kind == "postgres" else _TEST_OF_FILES).format(
            name=name, watched=watched
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


def _configuration(source: Endpoint, target: Endpoint, name: str, watched: str, match: str | None) -> str:
    connections = _connections(source, target)
    of_source = {"postgres": "shop", "s3": "lake"}.get(source.kind)
    trigger = {"postgres": "postgres.new_rows", "s3": "s3.new_files", "folder": "file.new_files"}[source.kind]
    lines = [
        f"# What is new in {source.uri} starts a Spark job that loads it into {target.uri}.",
        "# Every key is in docs/configuration.md; `watcher check --connect` looks whether the source can be reached.",
        "version: 1",
        "",
        "settings:",
        "  scheduler: {cancel_jobs: true} # Ctrl-C leaves no Spark behind; without it jobs go on and are found again",
        "",
        *(["connections:", *connections.values(), ""] if connections else []),
        "assets:",
        f"  {watched}:",
        f"    uri: {json.dumps(source.uri)}",
        "    watchers:",
        f"      {watched}_{'rows' if source.kind == 'postgres' else 'files'}:",
        f"        trigger: {trigger}",
        *([f"        connection: {of_source}"] if of_source else []),
        *([f"        table: {json.dumps(source.table)}"] if source.table else []),
        *([f"        match: {json.dumps(match)}"] if match else []),
        "        start: all # also what is there already; `now` begins with what comes",
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


def _connections(source: Endpoint, target: Endpoint) -> dict[str, str]:
    """Return the connections by name, each as lines of YAML."""
    connections = {}
    if source.kind == "postgres":
        dsn = f"${{SHOP_DSN:-{source.dsn}}}"
        connections["shop"] = (
            f"  shop: {{type: postgres, dsn: {json.dumps(dsn)}}} # with a password: in SHOP_DSN, not here"
        )
    if "s3" in {source.kind, target.kind}:
        keys = "# credentials as AWS's own tools find them; another server: endpoint_url"
        connections["lake"] = f"  lake: {{type: s3}} {keys}"
    return connections


_JOB: Final = '''\
"""Loads what is new in {source} into {target}."""

from asset_job import run


def load(r, new):
    """`new` is a DataFrame of exactly what this run's events name; a repetition replaces what an earlier try has written."""
    out = r.append(new, "{name}")
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

_TEST_BEGINS: Final = '''\
"""Runs the job with Spark and a folder, without a daemon: `python -m pytest tests`, by the Python that has Asset Watcher."""

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "jobs"))

import load_{name}
from asset_job import run


def test_what_is_new_is_loaded(tmp_path):
    outlet = {{"name": "{name}", "uri": (tmp_path / "{name}").as_uri()}}
    (tmp_path / "job.json").write_text(json.dumps({{"outlets": [outlet]}}))
'''
_TEST_ENDS: Final = """\
        written = r.spark.read.parquet(str(tmp_path / "{name}"))
        assert sorted(row.id for row in written.collect()) == [1, 2]

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
