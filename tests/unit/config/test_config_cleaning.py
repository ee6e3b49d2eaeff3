"""Where watchers move loaded files is no place that another watcher watches."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from config.errors import ConfigurationInvalid
from config.reading.loader import load
from watcher.configuration.vocabulary import vocabulary

pytestmark = pytest.mark.feature("clean_source")

S3 = """
connections:
  lake: {type: s3, endpoint_url: "http://one"}
  other: {type: s3, endpoint_url: "http://two"}
assets:
  inbox:
    uri: s3://landing/in/
    watchers:
      files: {trigger: s3.new_files, connection: lake, clean_source: {move_to: "s3://landing/done/"}}
  beside:
    uri: s3://landing/%s
    watchers:
      second: {trigger: s3.new_files, connection: %s}
"""
FOLDERS = """
assets:
  inbox:
    uri: file:///data/in
    watchers:
      files: {trigger: file.new_files, clean_source: {move_to: %s}}
  beside:
    uri: file:///archive
    watchers:
      second: {trigger: file.new_files}
"""


@pytest.fixture
def problems_of(tmp_path: Path) -> Callable[[str], list[str]]:
    """The problems of a text, as people see them; none if it is accepted."""

    def problems(text: str) -> list[str]:
        file = tmp_path / "watchers.yaml"
        file.write_text(f"version: 1\n{text}", encoding="utf-8")
        try:
            load(file, vocabulary(), {})
        except ConfigurationInvalid as refused:
            return [str(problem) for problem in refused.problems]
        return []

    return problems


@pytest.mark.parametrize("prefix", ["done/", "done/2026/", ""])
def test_a_target_that_another_watcher_of_the_server_watches_is_refused(
    problems_of: Callable[[str], list[str]], prefix: str
) -> None:
    [problem] = problems_of(S3 % (prefix, "lake"))
    assert "assets.inbox.watchers.files.clean_source.move_to: leads to where the watcher `second` finds it" in problem


def test_a_target_in_a_watched_folder_is_refused(problems_of: Callable[[str], list[str]]) -> None:
    [problem] = problems_of(FOLDERS % "/archive/2026")
    assert "leads to where the watcher `second` finds it again; choose a place that nothing watches" in problem


def test_a_target_beside_everything_or_on_another_server_is_accepted(problems_of: Callable[[str], list[str]]) -> None:
    for text in (S3 % ("others/", "lake"), S3 % ("done/", "other"), FOLDERS % "/done"):
        assert problems_of(text) == []
