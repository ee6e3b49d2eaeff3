"""The shell scripts behind `make setup` say in one sentence what is missing."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from tests.effort import PATIENCE

ROOT = Path(__file__).resolve().parents[3]
IMAGE = sorted((ROOT / "tools" / "image").iterdir())
SCRIPTS = [
    *(file for file in [*sorted((ROOT / "tools").iterdir()), *IMAGE] if file.is_file() and not file.suffix),
    ROOT / ".ci" / "run",
]


def program(path: Path, output: str) -> Path:
    """A program that prints `output`, as `java -version` does: on standard error."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\ncat >&2 <<'END'\n{output}\nEND\n")
    path.chmod(0o755)
    return path


def run(*command: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, env={**os.environ, **environment}, capture_output=True, text=True, check=False, timeout=PATIENCE
    )


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_scripts_have_valid_syntax_and_are_executable(script: Path) -> None:
    interpreter = script.read_text(encoding="utf-8").splitlines()[0].removeprefix("#!")
    assert run(interpreter, "-n", script).stderr == ""
    assert os.access(script, os.X_OK)


@pytest.mark.parametrize(
    "version", ['openjdk version "17.0.15" 2025-04-15', 'openjdk version "21" 2023-09-19', 'java version "25.0.1"']
)
def test_a_new_enough_java_is_enough(tmp_path: Path, version: str) -> None:
    program(tmp_path / "bin" / "java", version)
    done = run(ROOT / "tools" / "java", JAVA_HOME=str(tmp_path))
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize("version", ['openjdk version "11.0.22" 2024-01-16', 'java version "1.8.0_402"', "broken"])
def test_an_old_java_in_java_home_is_named_and_not_replaced(tmp_path: Path, version: str) -> None:
    program(tmp_path / "bin" / "java", version)
    done = run(ROOT / "tools" / "java", JAVA_HOME=str(tmp_path))
    assert done.returncode == 1
    assert done.stderr == f"JAVA_HOME={tmp_path} has no Java 17 or newer: unset it or point it to one.\n"


def test_every_test_belongs_to_one_of_the_two_rounds() -> None:
    [more] = re.findall(r"^MORE := (.*)$", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    markers = {line.partition(":")[0] for line in project["tool"]["pytest"]["ini_options"]["markers"]}
    assert {*more.split(" or ")} == markers - {"service", "feature(*names)"}


def test_the_hooks_before_a_commit_run_what_make_check_runs() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    [recipe] = re.findall(r"^check:.*\n((?:\t.*\n)+)", makefile, re.MULTILINE)
    hooks = YAML(typ="safe").load(ROOT / ".pre-commit-config.yaml")["repos"]
    entries = [hook["entry"].replace(" --force-exclude", "") for hooked in hooks for hook in hooked["hooks"]]
    assert entries == [line.strip().removeprefix("@").replace("$(BIN)", ".venv/bin") for line in recipe.splitlines()]
    assert {hooked["repo"] for hooked in hooks} == {"local"}, "nothing is fetched"


@pytest.mark.parametrize("form", sorted((ROOT / ".github").rglob("*.yml")), ids=lambda path: path.name)
def test_the_forms_parse_and_name_no_host(form: Path) -> None:
    text = form.read_text(encoding="utf-8")
    assert YAML(typ="safe").load(text)
    assert "://" not in text


def test_each_night_every_feature_that_no_other_needs_is_taken_out() -> None:
    jobs = YAML(typ="safe").load(ROOT / ".github/workflows/nightly.yml")["jobs"]
    commands = [step["run"] for job in jobs.values() for step in job["steps"] if "run" in step]
    assert "make without FEATURE=${{ matrix.feature }}" in commands
    assert any("tools/take_out.py --leaves" in command for command in commands)
    assert re.search(r"^without:", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    done = run(sys.executable, "-I", "-S", ROOT / "tools/take_out.py", "--leaves")
    assert done.returncode == 0, "it is run before anything is installed"
    assert "demo" in json.loads(done.stdout)


def test_an_old_python_is_named_with_the_remedy(tmp_path: Path) -> None:
    old = tmp_path / "python3.9"
    old.write_text("#!/bin/sh\nexit 1\n")
    old.chmod(0o755)
    done = run(ROOT / "tools" / "venv", old, tmp_path / "venv")
    assert done.returncode == 1
    assert done.stderr.startswith(f"{old} is not Python 3.11 or newer: name one that is")
    assert not (tmp_path / "venv").exists()


@pytest.mark.slow
def test_an_environment_of_the_required_python_is_kept(tmp_path: Path) -> None:
    venv = tmp_path / "venv"
    assert run(ROOT / "tools" / "venv", sys.executable, venv).returncode == 0
    (venv / "kept").touch()
    assert run(ROOT / "tools" / "venv", sys.executable, venv).returncode == 0
    assert run(ROOT / "tools" / "venv", "", venv).returncode == 0
    assert (venv / "kept").exists()
