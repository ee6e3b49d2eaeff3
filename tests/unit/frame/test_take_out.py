"""A feature can be taken out: its files, its entries, its import contracts, and the tests that import it."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import rooms
import take_out

from tests.effort import PATIENCE

ROOT = Path(__file__).parents[3]
TREE = {
    ".gitignore": "build/\n",
    "build/notes.txt": "ignored",
    "pyproject.toml": """
[project]
name = "small"

[tool.importlinter]
root_packages = ["store", "watcher"]

[[tool.importlinter.contracts]]
name = "layers"
type = "layers"
layers = ["watcher.features.replay | watcher.features.explain", "store"]

[[tool.importlinter.contracts]]
name = "replay stands alone"
type = "forbidden"
source_modules = ["watcher.features.replay.feature"]
forbidden_modules = ["store.keys"]
""",
    "store/keys.py": "KEY = 1\n",
    "store/features/replay/replays.py": "import store.keys\n",
    "watcher/features/__init__.py": 'FEATURES = (\n    "replay",\n    "explain",\n)\n',
    "watcher/features/replay/__init__.py": "",
    "watcher/features/replay/feature.py": "FEATURE = Feature(name='replay')\n",
    "watcher/features/replay/page.html": "<p>",
    "watcher/features/explain/__init__.py": "",
    "watcher/features/explain/feature.py": "FEATURE = Feature(name='explain')\n",
    "watcher/features/verdicts/feature.py": "FEATURE = Feature(name='verdicts', needs=('explain',))\n",
    "tests/conftest.py": "def database():\n    import store.features.replay.replays\n",
    "tests/replays.py": "from store.features.replay import replays\n",
    "tests/test_keys.py": "import store.keys\n",
    "tests/test_replays.py": "def test_it():\n    from store.features.replay.replays import selected\n",
    "tests/test_by_a_helper.py": "from tests.replays import replayed\n",
    "tests/pages/conftest.py": "from watcher.features.replay import feature\n",
    "tests/pages/helper.py": "",
    "tests/pages/test_page.py": "",
    "tests/unit/docs/test_words.py": "",
    "bench/replay.py": "import store.features.replay.replays\n",
}


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    folder = tmp_path / "tree"
    for name, text in TREE.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    subprocess.run(["git", "init", "-q", folder], check=True)
    return folder


def test_what_belongs_to_a_feature_is_not_in_the_copy(tree: Path, tmp_path: Path) -> None:
    target = tmp_path / "copy"
    taken_out = take_out.take_out(["replay"], target, repository=tree)
    assert {file.relative_to(target).as_posix() for file in target.rglob("*") if file.is_file()} == {
        ".gitignore",
        "pyproject.toml",
        "store/keys.py",
        "tests/conftest.py",
        "tests/pages/helper.py",
        "tests/test_keys.py",
        "watcher/features/__init__.py",
        "watcher/features/explain/__init__.py",
        "watcher/features/explain/feature.py",
        "watcher/features/verdicts/feature.py",
    }
    assert (target / "watcher/features/__init__.py").read_text() == "FEATURES = ('explain',)\n"
    assert taken_out.readers == {
        "bench/replay.py": "imports store.features.replay.replays",
        "tests/pages/conftest.py": "imports watcher.features.replay",
        "tests/pages/test_page.py": "stands below tests/pages/conftest.py",
        "tests/replays.py": "imports store.features.replay.replays",
        "tests/test_by_a_helper.py": "imports tests.replays",
        "tests/test_replays.py": "imports store.features.replay.replays",
        "tests/unit/docs/test_words.py": "compares the whole product",
    }
    contracts = tomllib.loads((target / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    assert [contract["layers"] for contract in contracts] == [["watcher.features.explain", "store"]]


def test_a_feature_that_another_needs_stays(tree: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="verdicts needs explain; take out verdicts as well"):
        take_out.take_out(["explain"], tmp_path / "copy", repository=tree)
    with pytest.raises(ValueError, match="there is no feature explains"):
        take_out.take_out(["explains"], tmp_path / "copy", repository=tree)
    assert not (tmp_path / "copy").exists()
    assert take_out.leaves(rooms.Product(tree)) == ["replay", "verdicts"]


@pytest.mark.parametrize(
    ("listing", "left"),
    [
        ("FEATURES = ['replay', 'explain']", "FEATURES = ['explain']"),
        ("FEATURES = ('watcher.features.replay.feature:FEATURE', 'replays')", "FEATURES = ('replays',)"),
        ("FEATURES = {'replay': 1, 'explain': 2}", "FEATURES = {'explain': 2}"),
        ("from store.features.replay import tables as of\nALL = (*of.ALL, *own)", "ALL = (*own,)"),
        ("from store.features import explain, replay\nALL = [explain, replay]", "from store.features import explain\nALL = [explain]"),
    ],
)  # fmt: skip
def test_lists_of_features_lose_the_entries_that_name_one(listing: str, left: str) -> None:
    assert take_out.without_entries(listing, ["replay", "catchup"]) == f"{left}\n"


@pytest.mark.parametrize(
    ("contract", "left"),
    [
        ({"layers": ["a | b : c", "d"]}, {"layers": ["a : c", "d"]}),
        ({"layers": ["b : c", "b"]}, {"layers": ["c"]}),
        ({"containers": ["x"], "layers": ["c", "a : d"]}, {"containers": ["x"], "layers": ["a : d"]}),
        ({"source_modules": ["b"], "forbidden_modules": ["a"]}, None),
        (
            {"forbidden_modules": ["a"], "ignore_imports": ["a -> b", "a -> c"]},
            {"forbidden_modules": ["a"], "ignore_imports": ["a -> c"], "unmatched_ignore_imports_alerting": "none"},
        ),
    ],
)
def test_contracts_lose_the_modules_that_are_gone(contract: dict[str, Any], left: dict[str, Any] | None) -> None:
    named = {"name": "contract", **contract}
    assert take_out.cut_contract(named, {"b", "x.c"}, []) == (left if left is None else {"name": "contract", **left})


def test_the_kernel_alone_is_the_kernel_with_the_local_spark_submit(tmp_path: Path) -> None:
    product = rooms.Product(ROOT)
    features = set(product.features) - take_out.LOCAL
    take_out.take_out(features, tmp_path)
    left = {
        name
        for name, room in ((name, product.rooms[module]) for module, name in product.files.items())
        if room not in features
    }
    assert set(rooms.Product(tmp_path).files.values()) == left
    assert (tmp_path / "tests/service/store").exists()


def test_a_test_that_names_a_feature_is_left_out_of_a_tree_without_it(tmp_path: Path) -> None:
    take_out.take_out(["warm"], tmp_path)
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "tests/unit/config/test_config_warm.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=PATIENCE)
    assert "deselected" in done.stdout, done.stdout + done.stderr
    assert done.returncode == pytest.ExitCode.NO_TESTS_COLLECTED


def test_what_a_marked_test_imports_takes_nothing_else_of_its_file_along() -> None:
    """The others stay, and the marker leaves the test out."""
    beside = "import pytest\n\ndef test_of_the_kernel():\n    import store.keys\n\n"
    marked = '@pytest.mark.feature("replay")\ndef test_of_replays():\n    from store.features.replay import replays\n'
    texts = {"tests/test_both.py": beside + marked, "tests/test_none.py": marked.partition("\n")[2]}
    assert take_out.readers_of({"store.features.replay.replays"}, texts) == {
        "tests/test_none.py": "imports store.features.replay.replays"
    }


@pytest.mark.slow
def test_the_kernel_alone_passes_mypy_its_import_contracts_and_its_suite(tmp_path: Path) -> None:
    """Its suite is what remains of the folders in `KERNEL_SUITE`: about 2,000 tests, some minutes."""
    take_out.take_out(set(rooms.Product(ROOT).features) - take_out.LOCAL, tmp_path)
    assert take_out.check(tmp_path, take_out.KERNEL_SUITE) == []
