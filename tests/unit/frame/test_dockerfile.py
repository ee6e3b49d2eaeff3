"""The Dockerfile is checked without building the image."""

from __future__ import annotations

import json
import os
import re
import subprocess
import tomllib
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[3]


class Instruction(NamedTuple):
    name: str
    text: str


@pytest.fixture(scope="module")
def stages() -> list[list[Instruction]]:
    """The instructions of each stage, from its FROM on."""
    text = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    text = re.sub(r"^\s*#.*\n", "", text, flags=re.MULTILINE).replace("\\\n", " ")
    found: list[list[Instruction]] = []
    for line in filter(None, map(str.strip, text.splitlines())):
        name, _, rest = line.partition(" ")
        if name == "FROM":
            found.append([])
        if found:
            found[-1].append(Instruction(name, " ".join(rest.split())))
    return found


@pytest.fixture(scope="module")
def final(stages: list[list[Instruction]]) -> dict[str, str]:
    """The last instruction of each kind in the final stage."""
    return {instruction.name: instruction.text for instruction in stages[-1]}


def copied(stages: list[list[Instruction]]) -> list[str]:
    copies = [text for stage in stages for name, text in stage if name == "COPY" and "--from" not in text]
    return [source for text in copies for source in text.split()[:-1]]


def let_in(path: str) -> bool:
    """Return whether .dockerignore lets a file into the build. The last matching line decides."""
    decision = True
    for line in (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#") and matches(line.removeprefix("!"), path):
            decision = line.startswith("!")
    return decision


def matches(pattern: str, path: str) -> bool:
    """Match the three forms of patterns in our .dockerignore. The pattern of a folder matches all below it."""
    if pattern.startswith("**/"):
        return pattern.removeprefix("**/") in Path(path).parts
    return pattern in ("*", path) or path.startswith(f"{pattern}/")


def test_both_stages_use_the_same_slim_python(stages: list[list[Instruction]]) -> None:
    assert [stage[0].text for stage in stages] == ["${BASE} AS system", "system AS java", "system AS build", "system"]
    text = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    assert re.findall("^ARG BASE=(.*)$", text, re.MULTILINE) == ["python:${PYTHON}-slim-${DEBIAN}"]


def test_every_copied_file_exists_and_is_let_into_the_build(stages: list[list[Instruction]]) -> None:
    sources = copied(stages)
    assert {source for source in sources if not (ROOT / source).exists()} == set()
    assert {source for source in sources if not let_in(source)} == set()
    assert not let_in("tests/conftest.py")
    assert not let_in(".git/config")
    assert not let_in("watcher/__pycache__/guard.cpython-312.pyc")


def test_every_package_is_copied(stages: list[list[Instruction]]) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    find = project["tool"]["setuptools"]["packages"]["find"]
    names = [pattern.removesuffix("*") for pattern in find["include"]]
    folders = [Path(folder, name) for name in names for folder in find["where"]]
    packages = {folder.as_posix() for folder in folders if (ROOT / folder).is_dir()}
    assert len(packages) == len(names)
    files = {project["project"]["readme"], *project["project"]["license-files"], "pyproject.toml"}
    assert packages | files <= set(copied(stages))


def test_pip_installs_by_hash_only_and_does_not_stay(stages: list[list[Instruction]]) -> None:
    commands = [command for name, text in stages[-2] if name == "RUN" for command in text.split(" && ")]
    installs = [command for command in commands if "pip install " in command]
    assert [command for command in installs if "--require-hashes" not in command and "--no-deps" not in command] == []
    assert [command for command in installs if "-r requirements/runtime.txt" in command or "--no-deps" in command] == [
        command for command in installs if "--no-build-isolation" in command
    ]
    assert any("uninstall --yes setuptools uv pip" in command for command in commands)
    assert any("pip uninstall --yes" in text for _, text in stages[0]), "the base's own"
    assert not any("pip" in text for _, text in stages[-1])


def test_the_daemon_runs_as_a_user_without_rights(final: dict[str, str]) -> None:
    user, group = final["USER"].split(":")
    assert (int(user) >= 10000, group) == (True, "0"), "any other account of this group may do the same"
    assert json.loads(final["ENTRYPOINT"]) == ["tini", "--", "watcher-entry"]
    assert json.loads(final["CMD"]) == ["run", "--cancel-jobs"]
    assert "WATCHER_SETTINGS__API__HOST=0.0.0.0" in final["ENV"]


def test_a_read_only_root_has_volumes_where_the_daemon_writes(final: dict[str, str]) -> None:
    volumes = json.loads(final["VOLUME"])
    home = re.search(r"WATCHER_SETTINGS__HOME=(\S+)", final["ENV"])
    assert home is not None
    assert {"/var/lib/watcher", "/tmp"} == set(volumes)  # noqa: S108
    assert home[1] == "/var/lib/watcher/home", "a volume may be open to others, the home must not"
    assert "PYTHONDONTWRITEBYTECODE=1" in final["ENV"]


def test_the_health_check_is_a_module_of_this_project(final: dict[str, str]) -> None:
    _, _, command = final["HEALTHCHECK"].partition(" CMD ")
    program, *options, module = json.loads(command)
    assert (program, options) == ("python", ["-P", "-m"])
    assert find_spec(module) is not None


def test_the_entry_point_is_an_executable_script() -> None:
    entry = ROOT / "tools" / "image" / "entry"
    assert os.access(entry, os.X_OK)
    assert subprocess.run(["sh", "-n", entry], capture_output=True, text=True, check=True).stderr == ""
