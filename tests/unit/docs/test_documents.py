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
DIAGRAM = re.compile(r"^```mermaid|[─│┼]|^ +/ +\|", re.MULTILINE)
WIDEST_SAMPLE = 80
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
    expected = [
        "README.md",
        "CHANGELOG.md",
        "CONTRIBUTING.md",
        "SECURITY.md",
        "docs/guarantees.md",
        "docs/architecture.md",
        "docs/versions.md",
    ]
    assert {root / name for name in expected} <= set(documents)


def test_links_lead_somewhere(documents: dict[Path, str], root: Path) -> None:
    broken = [
        f"{page.relative_to(root)}: {target}"
        for page, text in documents.items()
        for target in links(text)
        if not leads_somewhere(page, target)
    ]
    assert broken == []


def test_samples_fit_into_eighty_columns(documents: dict[Path, str], root: Path) -> None:
    """Diagrams may be wider, and pages that a program writes."""
    wide = [
        f"{page.relative_to(root)}: {line}"
        for page, text in documents.items()
        if page.parent.name != "sql"
        for fence in FENCE.finditer(text)
        if not DIAGRAM.search(fence[0])
        for line in fence[0].splitlines()
        if len(line) > WIDEST_SAMPLE
    ]
    assert wide == []


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


def test_the_newest_dated_section_of_the_changelog_is_this_version(documents: dict[Path, str], root: Path) -> None:
    released = [title[2] for title in CHANGELOG_TITLE.finditer(documents[root / "CHANGELOG.md"]) if title[2]]
    assert released == sorted(set(released), key=version_key, reverse=True)
    assert released[0] == project_version(root)


def test_a_section_of_the_changelog_can_be_read_at_one_sitting(documents: dict[Path, str], root: Path) -> None:
    _, *sections = re.split(r"^## ", documents[root / "CHANGELOG.md"], flags=re.MULTILINE)
    assert {section.splitlines()[0]: lines for section in sections if (lines := section.count("\n")) > 120} == {}


def test_the_pages_name_this_version_where_they_name_the_image(documents: dict[Path, str], root: Path) -> None:
    named = {version for text in documents.values() for version in re.findall(r"asset-watcher:(\d[\w.]*)", text)}
    assert named == {project_version(root)}


def test_the_page_of_versions_has_a_row_for_each_version(documents: dict[Path, str], root: Path) -> None:
    released = [title[2] for title in CHANGELOG_TITLE.finditer(documents[root / "CHANGELOG.md"]) if title[2]]
    rows = re.findall(r"^\| (\d+\.\d+\.\d+) \| \d{4} \|", documents[root / "docs" / "versions.md"], re.MULTILINE)
    assert rows == released


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


def project_version(root: Path) -> str:
    return str(tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"])


def version_key(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))
