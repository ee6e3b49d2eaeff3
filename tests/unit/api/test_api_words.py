"""Log links, schedules in words, and the vocabulary of the configuration."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from config.errors import UnknownClass
from store.base import AssetStoreWriterKind, Writer
from watcher.configuration.vocabulary import TRIGGERS, trigger_class, vocabulary
from watcher.serving.api.shapes.dags import schedule_text
from watcher.serving.api.shapes.entries import log_url

KIND = AssetStoreWriterKind
WRITERS = [
    (Writer(kind=KIND.API, actor="ann", write_id=None), None),
    (Writer(kind=KIND.API, actor="ann", write_id="w1"), "/api/v2/audit?write_id=w1"),
    (Writer(kind=KIND.WATCHER, watcher="a b", write_id="w1"), "/api/v2/watchers/a%20b/logs?around=w1"),
    (
        Writer(kind=KIND.TASK, dag_id="d", run_id="r+1:2", task_id="t", map_index=-1, try_number=2, write_id="w"),
        "/api/v2/dags/d/dagRuns/r%2B1%3A2/taskInstances/t/logs/2?around=w",
    ),
    (
        Writer(kind=KIND.TASK, dag_id="d", run_id="r", task_id="t", map_index=3, try_number=1, write_id="w"),
        "/api/v2/dags/d/dagRuns/r/taskInstances/t/logs/1?around=w&map_index=3",
    ),
]


@pytest.mark.parametrize(("writer", "url"), WRITERS)
def test_a_log_url_leads_to_the_log(writer: Writer, url: str | None) -> None:
    assert log_url(None, writer) == url
    if url is not None:
        assert log_url("https://host/base/", writer) == f"https://host/base{url}"


@pytest.mark.parametrize(
    ("condition", "text"),
    [
        (None, None),
        ("a", "a"),
        ({"asset": "a"}, "a"),
        ({"alias": "x"}, "alias(x)"),
        ({"all": ["a", "b"]}, "a & b"),
        ({"all": ["a", {"any": ["b", {"alias": "c"}]}]}, "a & (b | alias(c))"),
        ({"any": [{"all": ["a", "b"]}, "c"]}, "(a & b) | c"),
        ({"all": [{"any": ["a"]}]}, "a"),
        ({"any": ["b", {"asset": "a", "where": {"extra.r": "eu"}}]}, 'b | (a where extra.r = "eu")'),
        ({"alias": "x", "where": {"partition_key": ["1", None]}}, '(alias(x) where partition_key in ["1", null])'),
    ],
)
def test_schedules_are_shown_in_words(condition: Any, text: str | None) -> None:
    assert schedule_text(condition) == text


def test_every_registered_trigger_name_is_known() -> None:
    words = vocabulary()

    assert set(words.triggers) == set(TRIGGERS)
    for name in TRIGGERS:
        kind, trigger = words.trigger(name, None), trigger_class(name)
        assert (kind.options, kind.connection_type) == (trigger.Options, trigger.connection_type)
        assert kind.isolation == "none"


def test_a_dotted_path_names_a_class_of_the_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    base = trigger_class("file.new_files")
    (tmp_path / "plugin_of_a_test.py").write_text(
        f"from {base.__module__} import {base.__name__} as Base\n\n\nclass Mine(Base):\n    pass\n\n\nnumber = 1\n"
    )
    (tmp_path / "broken_plugin_of_a_test.py").write_text("raise RuntimeError('broken')\n")
    monkeypatch.syspath_prepend(tmp_path)

    assert trigger_class("plugin_of_a_test.Mine").__name__ == "Mine"
    for name, word in {
        "plugin_of_a_test.number": "not a subclass",
        "plugin_of_a_test.Nothing": "not a subclass",
        "broken_plugin_of_a_test.Mine": "broken",
        "no_such_module.Mine": "cannot be imported",
        "nonsense": "unknown trigger",
    }.items():
        with pytest.raises(UnknownClass) as raised:
            trigger_class(name)
        assert word in raised.value.sentence
        assert "file.new_files" in raised.value.suggestions
