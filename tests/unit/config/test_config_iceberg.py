"""Catalogs among the connections, and ingestions into their tables."""

from __future__ import annotations

from pathlib import Path

import pytest

from config.errors import ConfigurationInvalid
from config.models import Configuration
from config.reading.loader import load
from triggers.iceberg import IcebergConnection
from watcher.configuration.vocabulary import vocabulary

DOCUMENT = """
version: 1
connections:
  lake: {{type: s3, region: eu-central-1}}
  ice: {{type: iceberg, catalog: rest, uri: "https://catalog/", warehouse: "s3://w", properties: {{token: a-token}}, storage: lake}}
  sql: {{type: iceberg, catalog: sql, uri: "postgresql+psycopg://me:pass-word@db/ice", warehouse: "file:///w"}}
assets:
  landing: {{uri: "file:///in"}}
  orders: {{uri: "{uri}"}}
jobs:
  load:
    schedule: landing
    outlets: [orders]
    spark: {{application: "builtin:ingest", connections: [{connections}], options: {{{options}}}}}
"""


def loaded(
    folder: Path, connections: str = "sql", options: str = "target: shop.orders", uri: str = "file:///orders"
) -> Configuration:
    file = folder / "watchers.yaml"
    words = {"connections": connections, "options": f"format: iceberg, {options}", "uri": uri}
    file.write_text(DOCUMENT.format(**words))
    return load(file, vocabulary(), {})


def test_a_table_of_a_catalog_is_named_as_it_is(tmp_path: Path) -> None:
    for connections in ("sql", "lake, ice"):
        assert loaded(tmp_path, connections).jobs["load"].spark.options["target"] == "shop.orders"
    bad = "target: a.b.orders, bad_records: 'file:///bad', schema_evolution: add_columns"
    assert loaded(tmp_path, options=bad, uri="postgres://h/d/public/t").jobs["load"]


@pytest.mark.parametrize(
    ("connections", "options", "uri", "sentence"),
    [
        ("sql", "", "file:///o", "spark.options.target: must be `<namespace>.<table>` with `format: iceberg`"),
        ("sql", "target: orders", "file:///o", "spark.options.target: must be `<namespace>.<table>`"),
        ("", "target: a.b", "file:///o", "spark.connections: must list a connection of type iceberg"),
        ("ice", "target: a.b", "file:///o", "spark.connections: must list `lake` too, the storage of `ice`"),
        ("sql", "target: a.b", "postgres://h/d/public/t", "or set spark.options.bad_records"),
        ("sql", "target: a.b", "s3://b/o", "spark.connections: must list a connection of type s3"),
    ],
)
def test_what_is_missing_is_reported_before_anything_runs(
    tmp_path: Path, connections: str, options: str, uri: str, sentence: str
) -> None:
    with pytest.raises(ConfigurationInvalid) as refused:
        loaded(tmp_path, connections, options, uri)
    [problem] = refused.value.problems
    assert sentence in str(problem)


def test_possible_credentials_are_shown_to_jobs_only() -> None:
    connection = IcebergConnection.model_validate(
        {"catalog": "sql", "uri": "postgresql://me:pass-word@db/ice", "properties": {"token": "a-token"}}
    )
    assert "pass-word" not in f"{connection!r}{connection.model_dump_json()}"
    assert "a-token" not in f"{connection!r}{connection.model_dump_json()}"
    revealed = connection.reveal_to_jobs()
    assert (revealed["uri"], revealed["properties"]) == ("postgresql://me:pass-word@db/ice", {"token": "a-token"})
