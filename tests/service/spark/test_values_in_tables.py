"""What `r.append` writes in a folder is what is read back, or is refused by name before readers see anything."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from pyarrow import dataset
from pyiceberg.catalog.sql import SqlCatalog

from tests.service.spark import values_in_tables
from tests.service.spark.values_in_tables import MOMENTS

pytestmark = [pytest.mark.spark, pytest.mark.service]
ROOT = Path(__file__).parents[3]
AWKWARD = {"id": 1, "_partition_0": 2, "a.b": "x", "q\"'": "y", "ä/=%2F": "z", "tick`s": "p"}
TEXTS = [{"id": 1, "p": None}, {"id": 2, "p": "a"}, {"id": 3, "p": "a/b=c%2F e\u0301."}]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("tables")
    (made / "job.json").write_text(json.dumps({"inlets": [], "outlets": []}))
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'sdk'}", "PYSPARK_PYTHON": sys.executable}
    words = [sys.executable, values_in_tables.__file__, str(made), str(made / "said.json")]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return made


@pytest.fixture(scope="module")
def answers(folder: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((folder / "said.json").read_text())
    return content


def rows(folder: Path, kind: str, name: str) -> list[dict[str, Any]]:
    if kind == "parquet":
        partitions = [("run", pa.string()), ("tick`s" if name == "awkward" else "p", pa.string())]
        texts = dataset.HivePartitioning(pa.schema(partitions))
        table = dataset.dataset(folder / kind / name, partitioning=texts).to_table()
    elif kind == "delta":
        table = DeltaTable(folder / kind / name).to_pyarrow_table()
    else:
        catalog = SqlCatalog("ice", uri=f"sqlite:///{folder}/ice.db", warehouse=folder.as_uri())
        table = catalog.load_table(("shop", name)).scan().to_arrow()
    return [{key: value for key, value in row.items() if key != "run"} for row in table.sort_by("id").to_pylist()]


@pytest.mark.parametrize("kind", values_in_tables.FORMATS)
@pytest.mark.parametrize(
    ("name", "expected"),
    [("awkward", [AWKWARD]), ("texts", TEXTS)],
)
def test_names_and_partitions_are_read_back(
    folder: Path, answers: dict[str, Any], kind: str, name: str, expected: list[dict[str, Any]]
) -> None:
    assert answers[name][kind] == str(len(expected))
    read = rows(folder, kind, name)
    assert read == [{key: row[key] for key in read[0]} for row in expected]


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("alike", "several columns are named 'a', apart from upper and lower case: rename"),
        ("nested alike", "several fields of the column v are named 'a', apart from"),
        ("hidden", "cannot be partitioned by _p, because readers skip folders whose names begin like that"),
        ("void", "cannot hold the column v, because tables have no type for void: cast it"),
        ("interval", "cannot hold the column v, because tables have no type for interval day"),
        ("months", "cannot hold the column v, because tables have no type for interval year"),
        ("struct", "cannot hold the column v, because tables have no type for struct<>"),
        ("empty", "cannot be partitioned by p, which has a"),
        ("null text", "cannot be partitioned by p, which has a text that is empty"),
        ("long", "cannot be partitioned by p, which has a text that is empty, too long"),
        ("late", "partitioned by p, which has a value outside of the years 1 to 9999"),
        ("moment", "cannot be partitioned by p of the type timestamp: partition by a date or a text"),
        ("binary", "cannot be partitioned by p of the type binary"),
    ],
)
def test_what_a_table_cannot_hold_is_refused_by_name(
    folder: Path, answers: dict[str, Any], name: str, sentence: str
) -> None:
    assert [answer for answer in answers[name].values() if sentence not in answer] == []
    assert not list((folder / "parquet" / name).glob("run=*"))


def test_moments_and_days_in_a_folder_are_those_of_every_reader(folder: Path, answers: dict[str, Any]) -> None:
    table = dataset.dataset(folder / "parquet" / "moments", partitioning="hive").to_table()
    assert table.schema.field("v").type == pa.timestamp("us", "UTC")
    assert table["v"].cast(pa.int64()).to_pylist() == table["id"].to_pylist() == MOMENTS
    assert table["d"].cast(pa.int32()).to_pylist() == [each // 86_400_000_000 for each in MOMENTS]
    assert answers["by Spark"] == {str(each): [each] for each in MOMENTS}
    assert answers["zeros"] == len(MOMENTS)
    assert answers["settings"] == {"outputTimestampType": "INT96", "datetimeRebaseModeInWrite": "LEGACY"}
