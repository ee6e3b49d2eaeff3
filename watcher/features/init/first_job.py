"""The texts of the job that `watcher init` writes, and of the job's test. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

TableFormat: TypeAlias = Literal["parquet", "delta", "iceberg"]


def job(source: str, target: str, name: str, watched: str, table_format: TableFormat) -> str:
    """Return the job that loads what is new in the asset `watched` into the table `name`."""
    append = _APPENDS[table_format].format(name=name)
    return _JOB.format(source=source, target=target, name=name, watched=watched, append=append)


def text_of_test(name: str, watched: str, table_format: TableFormat, *, of_rows: bool) -> str:
    """Return the job's test, for what is new in a table (`of_rows`) or in files."""
    written = _TESTS_OF_FORMATS[table_format]
    return (_TEST_OF_ROWS if of_rows else _TEST_OF_FILES).format(
        name=name,
        watched=watched,
        imports=written.imports,
        connections=written.connections,
        rows=written.rows.format(name=name),
    )


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
