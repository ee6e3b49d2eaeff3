"""What `make release` decides: versions, sections of the changelog, and what it refuses, each in a sentence with the remedy."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest

from tools.release import Repository, Section, refusals, sections, version_key

ROOT = Path(__file__).resolve().parents[3]
CHANGELOG = """# Changelog

The form.

## [Unreleased]

## [0.2.0] - 2026-11-25

### Added

- Something.

## [0.1.0] - 2026-11-20

The first.
"""
READY = Repository(version="0.2.0", sdk_version="0.2.0", changelog=CHANGELOG, changes=[], tags=["v0.1.0", "a-name"])


def test_a_changelog_is_divided_into_its_sections() -> None:
    assert sections(CHANGELOG) == [
        Section(name="Unreleased", date=None, text=""),
        Section(name="0.2.0", date="2026-11-25", text="### Added\n\n- Something."),
        Section(name="0.1.0", date="2026-11-20", text="The first."),
    ]


def test_our_changelog_has_a_section_of_this_version() -> None:
    unreleased, newest, *_ = sections((ROOT / "CHANGELOG.md").read_text(encoding="utf-8"))
    assert (unreleased.name, newest.date is not None) == ("Unreleased", True)
    assert newest.text.startswith("Upgrading from")


def test_the_job_sdk_has_the_version_of_the_application() -> None:
    files = [ROOT / "pyproject.toml", ROOT / "sdk" / "pyproject.toml"]
    assert len({tomllib.loads(file.read_text(encoding="utf-8"))["project"]["version"] for file in files}) == 1


def test_versions_compare_as_numbers() -> None:
    assert sorted(["0.10.0", "0.9.1", "1.0.0", "0.9.0"], key=version_key) == ["0.9.0", "0.9.1", "0.10.0", "1.0.0"]


@pytest.mark.parametrize("version", ["0.2", "v0.2.0", "0.2.0rc1", "unknown", "0.2.0\n"])
def test_what_is_no_version_is_named(version: str) -> None:
    with pytest.raises(ValueError, match="is no version of the form"):
        version_key(version)


def test_a_clean_tree_with_a_dated_section_is_released() -> None:
    assert refusals(READY) == []
    assert refusals(replace(READY, sdk_version=None, tags=[])) == []


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        (
            {"changes": [" M README.md"]},
            "the working tree has uncommitted changes (1); commit or discard them",
        ),
        ({"tags": ["v0.2.0"]}, "version 0.2.0 is not newer than the tag v0.2.0; raise it in pyproject.toml"),
        (
            {"tags": ["v0.1.0", "v0.10.0"]},
            "version 0.2.0 is not newer than the tag v0.10.0; raise it in pyproject.toml",
        ),
        (
            {"sdk_version": "0.1.0"},
            "sdk/pyproject.toml has version 0.1.0; make it 0.2.0, as in pyproject.toml",
        ),
        (
            {"changelog": CHANGELOG.replace("[Unreleased]\n", "[Unreleased]\n\n### Fixed\n\n- More.\n")},
            "CHANGELOG.md has entries under Unreleased; move them to the section of 0.2.0",
        ),
        (
            {"changelog": CHANGELOG.replace(" - 2026-11-25", "")},
            "the section of 0.2.0 in CHANGELOG.md has no date; write `## [0.2.0] - YYYY-MM-DD`",
        ),
        (
            {"changelog": CHANGELOG.replace("### Added\n\n- Something.\n", "")},
            "the section of 0.2.0 in CHANGELOG.md is empty; say in it what the version does",
        ),
        (
            {"version": "0.3.0", "sdk_version": None},
            "the newest section of CHANGELOG.md is 0.2.0; it has to be 0.3.0, as in pyproject.toml",
        ),
        (
            {"changelog": "# Changelog\n\n## [Unreleased]\n"},
            "the newest section of CHANGELOG.md is none; it has to be 0.2.0, as in pyproject.toml",
        ),
    ],
)
def test_what_prevents_a_release_is_said_with_its_remedy(changed: dict[str, object], sentence: str) -> None:
    assert refusals(replace(READY, **changed)) == [sentence]


def test_all_that_prevents_a_release_is_said_at_once() -> None:
    broken = replace(READY, version="0.2", sdk_version=None, changes=["?? new"])
    assert len(refusals(broken)) == 3


def test_the_bill_of_a_release_names_the_pinned_distributions(tmp_path: Path) -> None:
    pins = tmp_path / "runtime.txt"
    pins.write_text(
        "alembic==1.18.0 \\\n    --hash=sha256:00\nSome_Name[extra]==2.0 ; sys_platform != 'win32' \\\n    --hash=sha256:01\n"
    )
    words = [sys.executable, ROOT / "tools" / "image" / "sbom.py", pins, tmp_path, "0.2.0"]
    bill = json.loads(subprocess.run(words, capture_output=True, text=True, check=True).stdout)
    assert {component["purl"] for component in bill["components"]} == {
        "pkg:pypi/alembic@1.18.0",
        "pkg:pypi/some-name@2.0",
    }
    component = bill["metadata"]["component"]
    assert (component["name"], component["version"], component["type"]) == ("asset-watcher", "0.2.0", "application")
