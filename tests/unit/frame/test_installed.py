"""The list of features is data that holds; features of other distributions keep to what is open to them, or are refused by name."""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, get_type_hints

import pytest
import typer
from fastapi import APIRouter
from sqlalchemy import Select, Table

from config.errors import ConfigurationInvalid, UnknownClass
from config.models import Configuration
from config.models.settings import SettingsPart
from config.reading.settings_loader import load_settings
from store.processes.cleanup import Chore
from tests.elsewhere import add_feature
from triggers.base import BaseConnection, BaseEventTrigger
from watcher import assembly
from watcher import installed as module
from watcher.errors import FeatureUnusable
from watcher.feature import CONTRACT, OPEN, Feature
from watcher.features import BUILT_IN
from watcher.installed import Installed, hooks, installed, known_settings, resolve
from watcher.scheduling.planning.base import Planner
from watcher.serving.api.app import routers_of
from watcher.submit.base import Submitter

FOLDER = Path(__file__).parents[3] / "watcher/features"
OURS = installed()


def is_subclass_of(base: type) -> Callable[[Any], bool]:
    return lambda made: isinstance(made, type) and issubclass(made, base)


def takes(*parameters: str) -> Callable[[Any], bool]:
    """Return whether something can be called with arguments of these names and no others."""
    return lambda made: callable(made) and [*inspect.signature(made).parameters] == [*parameters]


def is_async(*parameters: str) -> Callable[[Any], bool]:
    """Return whether something is an async function whose first parameters, all that must be given, have these names."""

    def check(made: Any) -> bool:
        required = [
            each.name.lstrip("_")
            for each in inspect.signature(made).parameters.values()
            if each.default is inspect.Parameter.empty
        ]
        return inspect.iscoroutinefunction(made) and required == [*parameters]

    return check


def are(kind: type) -> Callable[[Any], bool]:
    return lambda made: bool(made) and all(isinstance(each, kind) for each in made)


def declares(made: Any) -> bool:
    hints = get_type_hints(made)
    return next(iter(hints.values())) is Configuration and hints["return"].__name__ == "Applies"


KINDS: Mapping[str, Callable[[Any], bool]] = {
    "triggers": is_subclass_of(BaseEventTrigger),
    "connections": is_subclass_of(BaseConnection),
    "submitters": is_subclass_of(Submitter),
    "refines": is_subclass_of(Submitter),
    "settings": is_subclass_of(SettingsPart),
    "step": lambda made: inspect.iscoroutinefunction(made) and len(inspect.signature(made).parameters) == 3,
    "planners": is_subclass_of(Planner),
    "tables": are(Table),
    "keeps_events": lambda made: isinstance(made, Select) and len(made.selected_columns) == 1,
    "applies": is_async("connection", "applied"),
    "declares": declares,
    "chores": are(Chore),
    "after_events": is_async("connection", "events"),
    "isolation": takes("hidden"),
    "changed_items": lambda made: all(
        inspect.iscoroutinefunction(getattr(made, name, None)) for name in ("of_runs", "count")
    ),
    "count_cleaned": is_async("connection", "watcher", "place"),
    "start_check": is_async("database", "settings", "environment"),
    "services": takes("context"),
    "routes": are(APIRouter),
    "pages": takes("app"),
    "commands": lambda made: isinstance(made, typer.Typer),
    "more_commands": lambda made: isinstance(made, typer.Typer),
    "checks": is_async("configuration", "database"),
    "metrics": is_async("connection"),
    "problems": is_async("look"),
}
"""How what stands behind a path of each hook is recognized."""
PATHS = [
    (feature.name, hook, path)
    for feature in OURS.features
    for hook, value in hooks(feature).items()
    if hook != "spellings"
    for path in (
        [value]
        if isinstance(value, str)
        else dict.fromkeys(value.values())
        if isinstance(value, Mapping)
        else [service.build for service in value]
    )
]


@pytest.mark.parametrize(("name", "hook", "path"), PATHS, ids=str)
def test_behind_each_path_stands_what_the_contract_says(name: str, hook: str, path: str) -> None:
    assert KINDS[hook](resolve(path)), f"{path} is no {hook} of {name}"


def test_the_folders_of_features_are_the_list() -> None:
    assert sorted(path.parent.name for path in FOLDER.glob("*/feature.py")) == sorted(BUILT_IN)
    assert [feature.name for feature in OURS.features] == [*BUILT_IN]
    assert {feature.contract for feature in OURS.features} == {CONTRACT}


@pytest.mark.parametrize("name", BUILT_IN)
def test_a_feature_file_imports_only_the_contract(name: str) -> None:
    tree = ast.parse((FOLDER / name / "feature.py").read_text(encoding="utf-8"))
    imported = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert imported <= {"__future__", "collections.abc", "watcher.feature"}
    assert not any(isinstance(node, ast.Import) for node in ast.walk(tree))


@pytest.mark.parametrize(
    "hook",
    [
        each.name
        for each in fields(Feature)
        if each.name in {"triggers", "spellings", "connections", "submitters", "commands", "planners"}
    ],
)
def test_each_word_is_brought_by_one_feature(hook: str) -> None:
    OURS.words(hook)


@pytest.mark.parametrize("hook", ["isolation", "count_cleaned"])
def test_what_only_one_feature_can_do_is_brought_by_one(hook: str) -> None:
    """The daemon takes the first one's."""
    assert len(OURS.paths(hook)) == 1


def test_hooks_run_in_the_order_of_the_list() -> None:
    for made in (assembly.event_hooks(OURS.features).features, assembly.declarations(OURS.features)):
        assert [*made] == [name for name in BUILT_IN if name in made]


def test_another_spelling_means_a_trigger_of_its_feature() -> None:
    for feature in OURS.features:
        meant = {spelled.trigger for spelled in feature.spellings.values()}
        assert meant <= {*feature.triggers, *feature.triggers.values()}, feature.name


def test_a_word_that_two_features_bring_is_refused_by_name() -> None:
    both = Installed(features=[Feature(name=name, triggers={"s3.new_files": "a.b"}) for name in ("one", "two")])
    with pytest.raises(ValueError, match=r"the features one and two both bring 's3.new_files'.*; leave one out"):
        both.words("triggers")


def test_what_is_open_to_others_are_hooks() -> None:
    assert KINDS.keys() | {"upgrade"} >= OPEN
    assert {each.name for each in fields(Feature)} >= OPEN


# Of another distribution


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder on the import path; what a test installs there is forgotten when it ends."""
    before = {*sys.modules}
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    for name in {*sys.modules} - before:
        if name.startswith("feature_"):
            del sys.modules[name]
    module.installed.cache_clear()
    module._known_settings.cache_clear()


def refusal(*names: str) -> str:
    with pytest.raises(UnknownClass) as caught:
        known_settings(names)
    return caught.value.sentence


def test_a_feature_is_loaded_only_if_the_settings_name_it(elsewhere: Path) -> None:
    add_feature(elsewhere, "quota", "FEATURE = Feature(name='quota')")
    assert "quota" not in [each.name for each in installed().features]
    assert "feature_quota" not in sys.modules
    named = installed(("quota",))
    assert named.features[-1].name == "quota"
    assert [each.name for each in named.of_others.features] == ["quota"]


@pytest.mark.feature("commands")
@pytest.mark.parametrize(
    ("source", "sentence"),
    [
        ("FEATURE = Feature(name='quota', pages='a.b')", "the feature `quota` brings `pages`, which only"),
        ("FEATURE = Feature(name='quota', planners={'never': 'a.b'})", "brings `planners`, which only"),
        ("FEATURE = Feature(name='quota', after_events='a.b')", "brings `after_events`, which only"),
        ("FEATURE = Feature(name='quota', triggers={'a.b': 'a.b'})", "brings `triggers`, which only"),
        ("FEATURE = Feature(name='quota', upgrade='a.b')", "must have `upgrade` and a `tables_version` from 1 on"),
        ("FEATURE = Feature(name='quota', tables_version=1)", "must have `upgrade` and a `tables_version` from 1 on"),
        ("FEATURE = Feature(name='quota', needs=frozenset({'tides'}))", "needs `tides`; add that to settings.features"),
        ("FEATURE = Feature(name='quota', commands={'check': 'a.b'})", "commands and quota both bring 'check'"),
        (
            "FEATURE = Feature(name='quota', commands={'run': 'a.b'})",
            "the daemon itself and the feature quota both bring 'run'",
        ),
        (
            "FEATURE = Feature(name='quota', settings='feature_quota.Nothing')",
            "the feature quota has failed (Attribute",
        ),
        ("FEATURE = Feature(name='other')", "is not a `Feature` with the name `quota`; correct the entry point"),
        ("FEATURE = 1 / 0", "the feature `quota` cannot be imported (division by zero); correct it"),
    ],
)
def test_a_feature_that_breaks_its_contract_is_refused_by_name(elsewhere: Path, source: str, sentence: str) -> None:
    add_feature(elsewhere, "quota", source)
    assert sentence in refusal("quota")


@pytest.mark.feature("replay")
def test_a_name_that_is_not_installed_not_possible_or_ours_is_refused(elsewhere: Path) -> None:
    add_feature(elsewhere, "quota", "FEATURE = Feature(name='quota')")
    assert refusal("quotas") == "no installed feature is called `quotas`; install it, or did you mean `quota`?"
    assert "`two_words` is no name of a feature" in refusal("two_words")
    assert "`replay` is one of the daemon's own features" in refusal("replay")


def test_two_distributions_with_one_name_are_refused(elsewhere: Path) -> None:
    add_feature(elsewhere, "quota", "FEATURE = Feature(name='quota')")
    add_feature(elsewhere, "quota", "FEATURE = Feature(name='quota')", module="feature_quota_too")
    assert refusal("quota") == "two installed distributions have a feature called `quota`; uninstall one of them"


PART = """
from config.models.settings import SettingsPart

class Part(SettingsPart):
    {key}: int = 1

FEATURE = Feature(name="{name}", settings="feature_{name}.Part")
"""


def test_the_settings_of_a_feature_are_the_section_of_its_name(elsewhere: Path) -> None:
    add_feature(elsewhere, "quota", PART.format(name="quota", key="limit"))
    assert refusal("quota") == (
        "the settings of the feature quota must be a `SettingsPart` with the one key `quota`; correct it"
    )


def test_a_key_of_the_settings_that_two_have_is_refused(elsewhere: Path) -> None:
    add_feature(elsewhere, "logs", PART.format(name="logs", key="logs"))
    assert refusal("logs").endswith("both add `settings.logs`; leave one of the features out")


@pytest.mark.parametrize("declared", ["contract=2", "contract=1, telepathy='feature_quota.think'"])
def test_a_feature_for_another_contract_is_left_out_with_its_settings_and_a_sentence(
    elsewhere: Path, declared: str
) -> None:
    """A later contract may have hooks that this one has not."""
    add_feature(elsewhere, "quota", f"FEATURE = Feature(name='quota', {declared})")
    file = elsewhere / "watchers.yaml"
    file.write_text("version: 1\nsettings: {features: [quota], quota: {limit: 3}}\n")
    settings = load_settings(file, {}, known_settings)
    assert settings.features == ("quota",)
    have = installed(settings.features)
    assert [each.name for each in have.features] == [*BUILT_IN]
    assert have.unavailable["quota"].endswith(
        "this daemon has contract 1; it is left out until the one or the other is upgraded"
    )


def test_a_refusal_names_the_line_of_the_configuration(elsewhere: Path) -> None:
    file = elsewhere / "watchers.yaml"
    file.write_text("version: 1\nsettings:\n  features: [tides]\n")
    with pytest.raises(ConfigurationInvalid) as caught:
        load_settings(file, {}, known_settings)
    assert str(caught.value).startswith(f"{file}:3: settings.features: no installed feature is called `tides`")


ROUTES = """
from fastapi import APIRouter
from watcher.serving.api.sign_in.auth import Viewer

router, open_router, outer = APIRouter(prefix="/seen"), APIRouter(), APIRouter()
outer.include_router(open_router)

@router.get("")
async def seen(_: Viewer) -> int:
    return 1

@open_router.get("/everybody")
async def everybody() -> int:
    return 1

FEATURE = Feature(name="{name}", routes="feature_{name}.ROUTERS")
ROUTERS = [{routers}]
"""


@pytest.mark.parametrize(("routers", "place"), [("router, open_router", "/everybody"), ("outer", "_IncludedRouter")])
def test_a_route_that_anybody_may_call_is_refused_by_name(elsewhere: Path, routers: str, place: str) -> None:
    add_feature(elsewhere, "quota", ROUTES.format(name="quota", routers=routers))
    with pytest.raises(FeatureUnusable, match=f"the route {place} of the feature quota needs no role; let it take"):
        routers_of(installed(("quota",)))


def test_routes_that_cannot_be_imported_are_refused_by_name(elsewhere: Path) -> None:
    add_feature(elsewhere, "quota", "FEATURE = Feature(name='quota', routes='feature_quota.NOTHING')")
    with pytest.raises(FeatureUnusable, match=r"the feature quota has failed .AttributeError: .*; correct it, or take"):
        routers_of(installed(("quota",)))
