"""What a new configuration changes: the same text changes nothing, and each section is compared by its content."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from config.models import Configuration
from config.models.changes import (
    ConfigurationChanges,
    Difference,
    changed_settings,
    changes,
    restart_sentence,
    settings_digests,
)
from config.reading.loader import load
from config.reading.sources import folders, stamps
from watcher.configuration.vocabulary import vocabulary
from watcher.features.isolation.asked_classes import AskedClasses
from watcher.triggerer.isolation.inquiries import Inquirer

TEXT = """
version: 1
connections:
  lake: {type: s3, region: eu-central-1, access_key_id: me, secret_access_key: "${file:secret}"}
  shop: {type: postgres, host: db, database: shop, user: reader, password: pw}
assets:
  landing:
    uri: s3://landing/orders/
    watchers:
      landing_files: {trigger: s3.new_files, connection: lake, interval: 10s}
  customers:
    uri: postgres://db/shop/public/customers
    watchers:
      customers_rows: {trigger: postgres.new_rows, connection: shop}
  inbox:
    uri: file:///data/inbox
    watchers:
      inbox_files: {trigger: file.new_files}
aliases: {daily: {group: shop}}
jobs:
  load: {schedule: landing, spark: {application: load.py, connections: [lake]}}
  other: {schedule: inbox, spark: {application: other.py}}
"""
Edit = Callable[[dict[str, Any]], object]


def read(folder: Path, edit: Edit = lambda _: None, secret: str = "s3cr3t") -> Configuration:
    document = YAML(typ="safe", pure=True).load(TEXT)
    edit(document)
    (folder / "secret").write_text(secret)
    with (folder / "watchers.yaml").open("w") as file:
        YAML(typ="safe", pure=True).dump(document, file)
    return load(folder / "watchers.yaml", vocabulary(AskedClasses(Inquirer())), os.environ)


def only(**names: str) -> Difference:
    return Difference(**{kind: frozenset(each.split()) for kind, each in names.items()})


def test_the_same_text_changes_nothing(tmp_path: Path) -> None:
    found = changes(read(tmp_path), read(tmp_path))
    assert found == ConfigurationChanges()
    assert not found


def watcher(document: dict[str, Any], asset: str, name: str) -> dict[str, Any]:
    options: dict[str, Any] = document["assets"][asset]["watchers"][name]
    return options


EDITS: list[tuple[Edit, ConfigurationChanges]] = [
    (lambda d: d["assets"].update(new={"uri": "x-new:1"}), ConfigurationChanges(assets=only(added="new"))),
    (
        lambda d: watcher(d, "landing", "landing_files").update(interval="20s"),
        ConfigurationChanges(watchers=only(changed="landing_files")),
    ),
    (
        lambda d: watcher(d, "inbox", "inbox_files").update(isolation="process"),
        ConfigurationChanges(watchers=only(changed="inbox_files")),
    ),
    (
        lambda d: watcher(d, "inbox", "inbox_files").update(pause_after_failures=3),
        ConfigurationChanges(watchers=only(changed="inbox_files")),
    ),
    (
        lambda d: d["assets"].pop("customers"),
        ConfigurationChanges(assets=only(removed="customers"), watchers=only(removed="customers_rows")),
    ),
    (lambda d: d["assets"]["landing"].update(group="shop"), ConfigurationChanges(assets=only(changed="landing"))),
    (
        lambda d: d["connections"]["shop"].update(password="new"),
        ConfigurationChanges(connections=only(changed="shop"), watchers=only(changed="customers_rows")),
    ),
    (
        lambda d: d["connections"]["lake"].update(region="us-east-1"),
        ConfigurationChanges(
            connections=only(changed="lake"), watchers=only(changed="landing_files"), jobs=only(changed="load")
        ),
    ),
    (lambda d: d["jobs"]["other"]["spark"].update(master="local[2]"), ConfigurationChanges(jobs=only(changed="other"))),
    (lambda d: d["jobs"].pop("other"), ConfigurationChanges(jobs=only(removed="other"))),
    (lambda d: d["aliases"].update(weekly={}), ConfigurationChanges(aliases=only(added="weekly"))),
    (
        lambda d: d.update(settings={"api": {"port": 1}, "logs": {"json": False}}),
        ConfigurationChanges(settings=("settings.api.port", "settings.logs.json")),
    ),
]


@pytest.mark.parametrize(("edit", "expected"), EDITS)
def test_only_what_is_edited_changes(tmp_path: Path, edit: Edit, expected: ConfigurationChanges) -> None:
    assert changes(read(tmp_path), read(tmp_path, edit)) == expected


def test_a_rotated_secret_changes_its_connection_but_no_hash(tmp_path: Path) -> None:
    before, after = read(tmp_path), read(tmp_path, secret="rotated")
    found = changes(before, after)
    assert found.connections == only(changed="lake")
    assert found.watchers == only(changed="landing_files")
    assert (before.hash, before.definitions) == (after.hash, after.definitions)


def test_definitions_differ_where_the_watcher_or_its_connection_does(tmp_path: Path) -> None:
    before = read(tmp_path)
    after = read(tmp_path, lambda d: d["connections"]["lake"].update(region="us-east-1"))
    differing = {name for name in before.definitions if before.definitions[name] != after.definitions[name]}
    assert differing == {"landing_files"}


def test_digests_show_which_settings_changed_but_no_values(tmp_path: Path) -> None:
    before = read(tmp_path, lambda d: d.update(settings={"database": {"url": "postgresql+asyncpg://u:hidden@h/d"}}))
    digests = settings_digests(before.settings)
    assert "hidden" not in str(digests)
    assert changed_settings(digests, before.settings) == []
    names = changed_settings(digests, read(tmp_path).settings)
    assert names == ["settings.database.url"]
    assert restart_sentence(names).startswith("settings.database.url takes effect at a start only")


def test_a_file_that_was_written_replaced_or_removed_has_another_stamp(tmp_path: Path) -> None:
    configuration = read(tmp_path)
    assert configuration.secrets == {tmp_path / "secret"}

    def is_stale() -> bool:
        return stamps(configuration.file, configuration.secrets) != configuration.read_as

    assert not is_stale()
    (tmp_path / "new").write_text("s3cr3t")
    (tmp_path / "new").replace(tmp_path / "secret")
    assert is_stale()
    (tmp_path / "secret").unlink()
    assert is_stale()


def test_a_link_is_watched_in_its_folder_and_in_that_of_its_target(tmp_path: Path) -> None:
    (tmp_path / "edition").mkdir()
    (tmp_path / "edition" / "watchers.yaml").write_text(TEXT)
    (tmp_path / "watchers.yaml").symlink_to("edition/watchers.yaml")
    (tmp_path / "secrets").mkdir()
    assert folders(tmp_path / "watchers.yaml", [tmp_path / "secrets" / "one", tmp_path / "gone" / "two"]) == {
        tmp_path,
        tmp_path / "edition",
        tmp_path / "secrets",
    }
