"""The pinned requirements are complete, hashed, and agree with each other and with pyproject.toml."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[3]
FILES = ["build", "runtime", "demo", "dev", "clients", "airflow", "image"]
HASH = re.compile(r"--hash=sha256:[0-9a-f]{64}")


@pytest.fixture(scope="module")
def project() -> dict[str, Any]:
    found: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return found


def pins(name: str) -> list[Requirement]:
    text = (ROOT / "requirements" / f"{name}.txt").read_text(encoding="utf-8")
    lines = text.replace("\\\n", " ").splitlines()
    assert [line for line in lines if not HASH.search(line)] == [], "a line without a hash"
    return [Requirement(HASH.sub("", line).strip()) for line in lines]


def versions(name: str) -> dict[str, set[str]]:
    """All pinned versions by package: one package may have several, for different Pythons."""
    found: dict[str, set[str]] = {}
    for pin in pins(name):
        (specifier,) = pin.specifier
        assert specifier.operator == "=="
        found.setdefault(canonicalize_name(pin.name), set()).add(specifier.version)
    return found


def wanted(project: dict[str, Any], *extras: str) -> list[Requirement]:
    texts = [*project["dependencies"], *(text for extra in extras for text in project["optional-dependencies"][extra])]
    requirements = map(Requirement, texts)
    return [requirement for requirement in requirements if requirement.name != project["name"]]


@pytest.mark.parametrize(
    ("file", "extras"), [("runtime", ("spark",)), ("demo", ("spark", "demo")), ("dev", ("spark", "demo", "dev"))]
)
def test_every_dependency_is_pinned_within_its_range(
    project: dict[str, Any], file: str, extras: tuple[str, ...]
) -> None:
    pinned = versions(file)
    for requirement in wanted(project, *extras):
        found = pinned.get(canonicalize_name(requirement.name), set())
        assert found, f"{requirement} is not in requirements/{file}.txt: run make requirements"
        assert all(requirement.specifier.contains(version) for version in found)


def test_the_files_agree() -> None:
    everything = versions("dev")
    for file in ("runtime", "demo"):
        assert {name: found for name, found in versions(file).items() if everything.get(name) != found} == {}


def test_no_line_chooses_an_index() -> None:
    for file in FILES:
        text = (ROOT / "requirements" / f"{file}.txt").read_text(encoding="utf-8")
        assert "://" not in text
        assert not re.search(r"^\s*-(?!-hash)", text, re.MULTILINE)
