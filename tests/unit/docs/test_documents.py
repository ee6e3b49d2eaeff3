"""The statements of the pages about this repository are true."""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

FENCE = re.compile(r"^(```|~~~).*?^\1", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ +(.+?) *$", re.MULTILINE)
MAKE = re.compile(r"(?:^|`)make ([a-z][a-z-]*)", re.MULTILINE)

CHANGELOG_TITLE = re.compile(r"## \[(Unreleased|(\d+\.\d+\.\d+)\] - \d{4}-\d\d-\d\d)")
CHANGELOG_SECTIONS = {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}

# In two parts, so that this file does not match itself.
REGISTRIES = [
    "py" + "pi.org",
    "python" + "hosted.org",
    "docker" + ".io",
    "gh" + "cr.io",
    "qu" + "ay.io",
    "npm" + "js.org",
    "maven" + ".org",
    "proxy." + "golang.org",
    "--" + "index-url",
]


def test_the_pages_exist(documents: dict[Path, str], root: Path) -> None:
    expected = ["README.md", "CHANGELOG.md", "CONTRIBUTING.md", "docs/guarantees.md", "docs/architecture.md"]
    assert {root / name for name in expected} <= set(documents)


def test_links_lead_somewhere(documents: dict[Path, str], root: Path) -> None:
    broken = [
        f"{page.relative_to(root)}: {target}"
        for page, text in documents.items()
        for target in links(text)
        if not leads_somewhere(page, target)
    ]
    assert broken == []


def test_commands_of_the_pages_are_targets_of_the_makefile(documents: dict[Path, str], root: Path) -> None:
    makefile = (root / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z][a-z-]*):", makefile, re.MULTILINE))
    named = {(page.name, command) for page, text in documents.items() for command in MAKE.findall(text)}
    assert ("README.md", "demo") in named
    assert {(page, command) for page, command in named if command not in targets} == set()


def test_the_changelog_keeps_its_format(documents: dict[Path, str], root: Path) -> None:
    text = documents[root / "CHANGELOG.md"]
    titles = re.findall(r"^## .*$", text, re.MULTILINE)
    assert text.startswith("# Changelog\n")
    assert titles[0] == "## [Unreleased]"
    assert [title for title in titles if not CHANGELOG_TITLE.match(title)] == []
    assert set(re.findall(r"^### (.*)$", text, re.MULTILINE)) <= CHANGELOG_SECTIONS


def test_the_version_is_in_the_changelog_once_it_is_released(documents: dict[Path, str], root: Path) -> None:
    version = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    released = [found[2] for found in CHANGELOG_TITLE.finditer(documents[root / "CHANGELOG.md"]) if found[2]]
    assert released in ([], sorted(released, key=version_key, reverse=True))
    assert not released or version_key(version) >= version_key(released[0])


def test_every_decision_is_listed(root: Path) -> None:
    folder = root / "docs" / "decisions"
    listed = links((folder / "README.md").read_text(encoding="utf-8"))
    pages = sorted(page.name for page in folder.glob("[0-9]*.md"))
    assert pages
    assert sorted(listed) == pages
    assert [page[:4] for page in pages] == [f"{number:04}" for number in range(1, len(pages) + 1)]


def test_no_file_names_a_registry_or_a_place_on_this_machine(project_files: list[Path], root: Path) -> None:
    places = [str(place) for place in (root, Path.home(), Path(sys.prefix)) if is_of_this_machine(place)]
    forbidden = re.compile("|".join(map(re.escape, [*REGISTRIES, *places])))
    findings = [
        f"{file.relative_to(root)}: {found[0]}"
        for file in project_files
        if (found := forbidden.search(file.read_text(encoding="utf-8", errors="replace")))
    ]
    assert findings == []


def is_of_this_machine(place: Path) -> bool:
    """Return whether a path tells of a machine: not `/root`, `/usr/local` or the `/src` of a container, which all have."""
    return len(place.parts) > 2 and place != Path("/usr/local")


def links(text: str) -> list[str]:
    return LINK.findall(FENCE.sub("", text))


def leads_somewhere(page: Path, target: str) -> bool:
    if target.startswith(("https://", "http://", "mailto:")):
        return True
    path, _, anchor = target.partition("#")
    file = (page.parent / path) if path else page
    if not file.exists():
        return False
    return not anchor or anchor in set(anchors(file.read_text(encoding="utf-8")))


def anchors(text: str) -> Iterator[str]:
    """Return the anchors that the usual renderers make of headings."""
    for heading in HEADING.findall(FENCE.sub("", text)):
        yield re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def version_key(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))
