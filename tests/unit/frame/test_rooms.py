"""The kernel imports no feature, features import what they declare, and the picture of it agrees with the code."""

from __future__ import annotations

import ast
import re
import subprocess
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path

import pytest
import rooms

from watcher.features import BUILT_IN

ROOT = Path(__file__).parents[3]


@cache
def product() -> rooms.Product:
    return rooms.Product(ROOT)


def test_every_python_file_of_the_product_is_in_one_room() -> None:
    listed = product().as_json()
    features = listed.pop("features")
    files = [file for room in [*listed.values(), *features.values()] for file in room]
    assert listed.keys() == {"kernel", "shared", "root"}
    assert len(files) == len(set(files))
    command = ["git", "-C", ROOT, "ls-files", "--cached", "--others", "--exclude-standard", "--", *rooms.PACKAGES]
    listing = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    assert set(files) == {file for file in listing if file.endswith(".py") and (ROOT / file).exists()}


def test_every_pattern_of_the_table_names_the_room_of_a_file() -> None:
    used: set[str] = set()
    for file in product().files.values():
        used |= {next((pattern for pattern, _ in rooms.ELSEWHERE if fnmatchcase(file, pattern)), "")}
    assert [pattern for pattern, _ in rooms.ELSEWHERE if pattern not in used] == []


def test_imports_follow_what_the_rooms_declare() -> None:
    undeclared = [str(arrow) for arrow in product().undeclared]
    assert undeclared == [], "the kernel, or a feature that declares no such need, imports a feature"


def test_the_root_names_no_feature_but_by_the_list() -> None:
    assert [str(arrow) for arrow in product().between([rooms.ROOT], product().features)] == []


def test_what_a_feature_needs_is_a_feature_and_no_circle() -> None:
    needs = product().needs
    assert {target for targets in needs.values() for target in targets} <= needs.keys()
    assert rooms.circles(needs) == []


def test_no_rooms_import_each_other_in_a_circle() -> None:
    graph: dict[str, set[str]] = {room: set() for room in product().rooms.values()}
    for arrow in product().arrows:
        graph[product().rooms[arrow.source]].add(product().rooms[arrow.target])
    assert rooms.circles({room: frozenset(targets - {room}) for room, targets in graph.items()}) == []


def test_tests_name_features_that_there_are() -> None:
    named: set[str] = set()
    for file in (ROOT / "tests").rglob("test_*.py"):
        if "mark.feature(" in (text := file.read_text(encoding="utf-8")):
            calls = (node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call))
            marks = [call for call in calls if ast.unparse(call.func) == "pytest.mark.feature"]
            named |= {ast.literal_eval(argument) for call in marks for argument in call.args}
    assert "partitions" in named
    assert named <= set(product().features)


def test_the_picture_of_the_rooms_agrees_with_the_declared_needs() -> None:
    picture = (ROOT / rooms.PICTURE).read_text(encoding="utf-8")
    assert picture == rooms.drawn(product().needs), "draw it anew: tools/rooms.py --write"


def test_the_page_of_the_architecture_has_a_row_for_each_feature() -> None:
    page = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
    table = page.partition("| feature | holds |")[2].partition("\n\n")[0]
    assert re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE) == [*BUILT_IN]


@pytest.mark.parametrize(
    ("file", "room"),
    [
        ("store/runs/queue/queues.py", "kernel"),
        ("watcher/app.py", "root"),
        ("watcher/features/__init__.py", "kernel"),
        ("store/features/__init__.py", "kernel"),
        ("watcher/features/replay/routes/replays.py", "replay"),
        ("store/features/replay/replays.py", "replay"),
        ("config/features/partitions/checks.py", "partitions"),
        ("triggers/shared/postgres/opener.py", "shared"),
        ("triggers/s3/queue.py", "s3"),
    ],
)
def test_a_file_is_in_the_room_that_its_place_or_the_table_says(file: str, room: str) -> None:
    assert rooms.room_of(file) == room


def small_product(folder: Path, files: dict[str, str]) -> rooms.Product:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return rooms.Product(folder)


def test_imports_that_no_need_declares_are_named_wherever_they_stand(tmp_path: Path) -> None:
    files = {
        "store/keys.py": "from store.features.replay import replays\n",
        "store/features/replay/replays.py": "import store.keys\nfrom triggers.shared.names import NAME\n",
        "store/features/catchup/catchups.py": "def later():\n    from ..replay.replays import selected\n",
        "triggers/shared/names.py": "if TYPE_CHECKING:\n    from store.keys import Key\n",
        "watcher/app.py": "import store.features.catchup.catchups\n",
        "watcher/features/catchup/feature.py": "FEATURE = Feature(name='catchup')\n",
        "watcher/features/explain/feature.py": "FEATURE = Feature(name='explain', needs=('replay',))\n",
        "watcher/features/replay/feature.py": "FEATURE = Feature(name='replay')\n",
        "watcher/features/explain/routes.py": "from store.features.replay.replays import selected\nimport watcher.app\n",
    }
    product = small_product(tmp_path, files)
    assert [f"{arrow}{' (types)' if arrow.types_only else ''}" for arrow in product.undeclared] == [
        "store.features.catchup.catchups -> store.features.replay.replays",
        "store.keys -> store.features.replay.replays",
        "triggers.shared.names -> store.keys (types)",
        "watcher.features.explain.routes -> watcher.app",
    ]
    assert rooms.circles(product.imports) == [["store.features.replay.replays", "store.keys", "triggers.shared.names"]]
    assert rooms.circles(product.subjects) == [["kernel", "replay", "shared"]]


def test_features_that_need_each_other_in_a_circle_are_named() -> None:
    circle = {"a": frozenset({"b"}), "b": frozenset({"a", "c"}), "c": frozenset[str]()}
    assert rooms.circles(circle) == [["a", "b"]]
    with pytest.raises(ValueError, match="in a circle: a, b"):
        rooms.floors(circle)
