"""A configuration is checked without importing its plug-ins into this process, whatever they do."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from config.errors import ConfigurationInvalid, UnknownClass
from config.models import Configuration
from config.reading.loader import load
from tests.unit.api.test_described_watermarks import row
from triggers.base import Facts
from watcher.configuration.vocabulary import Descriptions, vocabulary
from watcher.features.isolation.asked_classes import AskedClasses, ForeignOptions
from watcher.features.isolation.fork_server import ForkServer
from watcher.features.isolation.inquiries import Inquirer

MODULES = {
    "exits_on_import": "import os\nos._exit(9)\n",
    "raises_on_import": "raise KeyboardInterrupt\n",
    "hangs_on_import": "while True: pass\n",
    "odd": """
from dataclasses import replace
from datetime import timedelta
from pydantic import SecretStr
from triggers.base import BaseEventTrigger, BaseOptions
from triggers.options import Duration

class Odd(BaseEventTrigger):
    class Options(BaseOptions):
        interval: Duration = timedelta(seconds=5)
        number: int
        token: SecretStr = SecretStr("")
    @classmethod
    def defaults(cls, uri):
        if uri.startswith("x-broken:"):
            raise ValueError("no number can be made of this URI")
        return {"number": 3} if uri.startswith("x-three:") else {}
    @classmethod
    def describe(cls, watermark):
        return f"{watermark['waiting']} wait", {"waiting": watermark["waiting"]}
    def check(self): ...
    def source_identity(self): ...
    def events(self, position): ...

class Tidy(Odd):
    class Options(Odd.Options):
        start: str = "now"
        number: int = 1
        def facts(self):
            if self.number == 13:
                raise RuntimeError("unlucky")
            after = timedelta(days=1) if self.number == 2 else None
            return replace(super().facts(), parts=("day", "hour"), further_assets=("b",), cleaned_after=after)
""",
}


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A folder of plug-ins, which this process forgets if a test had it import some."""
    for name, text in MODULES.items():
        (tmp_path / f"{name}.py").write_text(text)
    yield tmp_path
    for name in MODULES:
        sys.modules.pop(name, None)


@pytest.fixture(scope="module")
def server() -> Iterator[ForkServer]:
    with ForkServer() as server:
        yield server


@pytest.fixture
def inquirer(server: ForkServer) -> Iterator[Inquirer]:
    with Inquirer(server) as inquirer:
        yield inquirer


def loaded(folder: Path, inquirer: Inquirer, watcher: str, *, uri: str = "x-test://a", more: str = "") -> Configuration:
    path = folder / "watchers.yaml"
    path.write_text(
        f"version: 1\nsettings: {{plugins_dir: {folder}}}\nassets:\n  a:\n    uri: {uri}\n    watchers:\n"
        f"      w: {{{watcher}}}\n{more}"
    )
    return load(path, vocabulary(AskedClasses(inquirer)), {"TOKEN": "hunter22"})


def problem(folder: Path, inquirer: Inquirer, watcher: str, *, uri: str = "x-test://a") -> str:
    with pytest.raises(ConfigurationInvalid) as refused:
        loaded(folder, inquirer, watcher, uri=uri)
    [problem] = refused.value.problems
    return str(problem).removeprefix(f"{folder}/watchers.yaml:7: assets.a.watchers.w")


def test_the_class_checks_its_options_and_is_not_imported_here(folder: Path, inquirer: Inquirer) -> None:
    configuration = loaded(folder, inquirer, 'trigger: odd.Odd, number: 4, token: "${TOKEN}"')
    options = configuration.watchers["w"].options
    assert isinstance(options, ForeignOptions)
    assert options.given == {"number": 4, "token": "hunter22"}
    assert options.model_dump() == {"interval": "5s", "number": 4, "token": "**********"}
    assert "hunter22" not in repr(configuration)
    assert configuration.watchers["w"].isolation == "process"
    assert configuration.environment == {"TOKEN"}
    assert "odd" not in sys.modules


@pytest.mark.parametrize("isolation", ["process", "none"])
def test_facts_are_the_same_wherever_options_are_checked(folder: Path, inquirer: Inquirer, isolation: str) -> None:
    written = f"trigger: odd.Tidy, isolation: {isolation}"
    facts = loaded(folder, inquirer, written, more="  b:\n").watchers["w"].facts
    assert facts == Facts(starts_now=True, parts=("day", "hour"), further_assets=("b",))


def test_a_shipped_trigger_in_a_process_of_its_own_has_its_facts(folder: Path, inquirer: Inquirer) -> None:
    written = "trigger: file.new_files, path: /in, isolation: process, partition: 'day={day}'"
    facts = loaded(folder, inquirer, written).watchers["w"].facts
    assert facts == Facts(starts_now=True, parts=None, names_versions=True)
    written = "trigger: file.new_files, path: /in, isolation: process, start: all, partition: {day: 'd={}'}"
    assert loaded(folder, inquirer, written).watchers["w"].facts == Facts(parts=("day",), names_versions=True)


def test_the_hash_does_not_depend_on_where_options_are_checked(folder: Path, inquirer: Inquirer) -> None:
    in_a_child = loaded(folder, inquirer, "trigger: odd.Odd, number: 4")
    in_this_process = loaded(folder, inquirer, "trigger: odd.Odd, number: 4, isolation: none")
    assert in_a_child.hash == in_this_process.hash
    assert "odd" in sys.modules
    del sys.modules["odd"]


def test_the_class_gives_the_defaults_that_a_uri_implies(folder: Path, inquirer: Inquirer) -> None:
    options = loaded(folder, inquirer, "trigger: odd.Odd", uri="x-three://a").watchers["w"].options
    assert options.model_dump()["number"] == 3


@pytest.mark.parametrize(
    ("watcher", "sentence"),
    [
        ("trigger: odd.Odd", ".number: is missing; add it"),
        ("trigger: odd.Odd, number: x", ".number: must be a whole number, not text"),
        ("trigger: odd.Odd, numbers: 4, number: 4", ".numbers: is not a key here; did you mean `number`?"),
        ("trigger: odd.Odd, number: 4, clean_source: true", ".clean_source: is not a key here"),
        (
            "trigger: file.new_files, path: /data, isolation: process, clean_source: {delete: true}",
            ".clean_source: works in the daemon's own process only; write `isolation: none`",
        ),
        ("trigger: odd.Odd, number: 4, pause_after_failures: 0", ".pause_after_failures: must be a whole number"),
        ("trigger: odd.Odd, number: 4, isolation: perhaps", ".isolation: must be `process` or `none`"),
        ("trigger: odd.Nothing", ".trigger: `odd.Nothing` is not a subclass of triggers.base.BaseEventTrigger; "),
        ("trigger: nowhere.Nothing", ".trigger: `nowhere.Nothing` cannot be imported (No module named 'nowhere')"),
        (
            "trigger: exits_on_import.Odd",
            ".trigger: `exits_on_import.Odd` cannot be imported (its process ended with exit code 9); fix it",
        ),
        (
            "trigger: odd.Tidy, number: 2",
            ".trigger: cleans its source, which works in the daemon's own process only; write `isolation: none`",
        ),
        ("trigger: odd.Tidy, number: 13", ": the options' `facts` raised RuntimeError; correct the class"),
        (
            "trigger: odd.Tidy, number: 13, isolation: none",
            ": the options' `facts` raised RuntimeError; correct the class",
        ),
        ("trigger: raises_on_import.Odd", ".trigger: `raises_on_import.Odd` cannot be imported (KeyboardInterrupt: )"),
    ],
)
def test_each_mistake_is_one_sentence(folder: Path, inquirer: Inquirer, watcher: str, sentence: str) -> None:
    assert problem(folder, inquirer, watcher).startswith(sentence)


def test_a_uri_that_the_class_refuses_is_reported_with_its_sentence(folder: Path, inquirer: Inquirer) -> None:
    sentence = problem(folder, inquirer, "trigger: odd.Odd, number: 4", uri="x-broken://a")
    assert sentence == ": no number can be made of this URI"


def test_a_module_that_hangs_is_abandoned_after_the_time_limit(folder: Path, server: ForkServer) -> None:
    with Inquirer(server, patience=2) as inquirer:
        sentence = problem(folder, inquirer, "trigger: hangs_on_import.Odd")
    assert "`hangs_on_import.Odd` cannot be imported (it did not answer within 2 s)" in sentence


def test_the_description_of_a_watermark_is_kept(folder: Path, inquirer: Inquirer) -> None:
    inquirer.prepare(folder, frozenset())
    descriptions = Descriptions(AskedClasses(inquirer))
    described = descriptions.describe("odd.Odd", {"waiting": 3}, "w")
    assert (described.sentence, described.gauges, described.fault) == ("3 wait", {"waiting": 3.0}, None)
    assert descriptions.describe("odd.Odd", {"waiting": 3}, "w") is described
    fault = descriptions.describe("odd.Odd", {}, "w").fault
    assert fault == "`odd.Odd` could not describe its watermark (KeyError: 'waiting'); correct its `describe`"


def test_no_plug_in_is_asked_once_the_time_is_used_up(folder: Path, inquirer: Inquirer) -> None:
    inquirer.prepare(folder, frozenset())
    rows = [
        row("odd", '{"waiting": 3}', "odd.Odd"),
        row("rows", '{"alarm": {"reason": "end it"}}', "postgres.new_rows"),
    ]
    assert Descriptions(AskedClasses(inquirer)).sentences(rows, 0) == [None, "alarm: end it"]
    assert Descriptions(AskedClasses(inquirer)).sentences([*rows, row("new", None, "odd.Odd")], 60) == [
        "3 wait",
        "alarm: end it",
        None,
    ]


def test_a_fork_server_that_died_is_replaced(folder: Path, server: ForkServer) -> None:
    for _ in range(2):
        with Inquirer(server) as inquirer:
            assert loaded(folder, inquirer, "trigger: odd.Odd, number: 4")
        (program,) = server._programs
        program.process.kill()
        program.process.wait()
        with Inquirer(server) as inquirer, pytest.raises(UnknownClass, match="cannot be imported"):
            inquirer.ask("odd.Odd", "describe")
