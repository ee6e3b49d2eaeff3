"""Build a release into build/release, and offer its tag: `make release`.

The version stands in pyproject.toml alone. Nothing is built from a working tree that differs from its commit, and nothing is
tagged without a "yes" on a terminal.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import file_digest
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parents[1]
OUTPUT: Final = ROOT / "build" / "release"
TITLE: Final = re.compile(r"^## \[(?P<name>[^\]]+)\](?: - (?P<date>\d{4}-\d\d-\d\d))?[ \t]*$", re.MULTILINE)
VERSION: Final = re.compile(r"\d+\.\d+\.\d+")


@dataclass(frozen=True, kw_only=True)
class Section:
    """One version's part of the changelog."""

    name: str
    """A version, or `Unreleased`."""
    date: str | None
    text: str
    """The section's text without the title."""


@dataclass(frozen=True, kw_only=True)
class Repository:
    """What decides whether a release can be made."""

    version: str
    """The version in pyproject.toml."""
    sdk_version: str | None
    """The version in sdk/pyproject.toml; None if it has none of its own."""
    changelog: str
    changes: Sequence[str]
    """Lines of `git status --porcelain`."""
    tags: Sequence[str]


def sections(changelog: str) -> list[Section]:
    """The sections of a changelog, in their order."""
    titles = list(TITLE.finditer(changelog))
    ends = [*(title.start() for title in titles[1:]), len(changelog)]
    return [
        Section(name=title["name"], date=title["date"], text=changelog[title.end() : end].strip())
        for title, end in zip(titles, ends, strict=True)
    ]


def version_key(version: str) -> tuple[int, ...]:
    """Return a key that compares versions by their numbers. Raise ValueError for what is not `MAJOR.MINOR.PATCH`."""
    if not VERSION.fullmatch(version):
        raise ValueError(f"{version} is no version of the form MAJOR.MINOR.PATCH")
    return tuple(map(int, version.split(".")))


def refusals(repository: Repository) -> list[str]:
    """Return the reasons against a release, one sentence each."""
    return [
        *_refused_by_version(repository),
        *_refused_by_changelog(repository),
        *(
            [f"the working tree has uncommitted changes ({len(repository.changes)}); commit or discard them"]
            if repository.changes
            else []
        ),
    ]


def _refused_by_version(repository: Repository) -> Iterator[str]:
    try:
        version = version_key(repository.version)
    except ValueError as error:
        yield f"pyproject.toml: {error}"
        return
    if repository.sdk_version not in {None, repository.version}:
        yield f"sdk/pyproject.toml has version {repository.sdk_version}; make it {repository.version}, as in pyproject.toml"
    released = [tag.removeprefix("v") for tag in repository.tags if VERSION.fullmatch(tag.removeprefix("v"))]
    newest = max(released, key=version_key, default=None)
    if newest is not None and version <= version_key(newest):
        yield f"version {repository.version} is not newer than the tag v{newest}; raise it in pyproject.toml"


def _refused_by_changelog(repository: Repository) -> Iterator[str]:
    listed = sections(repository.changelog)
    if any(section.name == "Unreleased" and section.text for section in listed):
        yield f"CHANGELOG.md has entries under Unreleased; move them to the section of {repository.version}"
    dated = [section for section in listed if section.name != "Unreleased"]
    if not dated or dated[0].name != repository.version:
        newest = dated[0].name if dated else "none"
        yield f"the newest section of CHANGELOG.md is {newest}; it has to be {repository.version}, as in pyproject.toml"
    elif dated[0].date is None:
        yield f"the section of {repository.version} in CHANGELOG.md has no date; write `## [{repository.version}] - YYYY-MM-DD`"
    elif not dated[0].text:
        yield f"the section of {repository.version} in CHANGELOG.md is empty; say in it what the version does"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--checks", choices=["yes", "no"], default="yes", help="run `make check` and `make test` first")
    options, for_image = parser.parse_known_args()
    version = _ready()
    if options.checks == "yes":
        _run("make", "--no-print-directory", "check", "test")
        _ready()
    shutil.rmtree(OUTPUT, ignore_errors=True)
    OUTPUT.mkdir(parents=True)
    _write_notes(version)
    _build_wheels()
    _write_bill(version)
    _build_image(version, for_image)
    _write_checksums()
    print(f"Ready in {OUTPUT.relative_to(ROOT)}:", *sorted(file.name for file in OUTPUT.iterdir()), sep="\n  ")
    _offer_tag(version)


def _ready() -> str:
    """Return the version to release. Exit with the reasons against a release."""
    repository = _look()
    if sentences := refusals(repository):
        sys.exit("\n".join(["No release:", *(f"- {sentence}" for sentence in sentences)]))
    return repository.version


def _look() -> Repository:
    sdk = ROOT / "sdk" / "pyproject.toml"
    return Repository(
        version=_project(ROOT / "pyproject.toml")["version"],
        sdk_version=_project(sdk).get("version") if sdk.exists() else None,
        changelog=(ROOT / "CHANGELOG.md").read_text(encoding="utf-8"),
        changes=_output("git", "status", "--porcelain").splitlines(),
        tags=_output("git", "tag", "--list").split(),
    )


def _project(file: Path) -> dict[str, Any]:
    project: dict[str, Any] = tomllib.loads(file.read_text(encoding="utf-8"))["project"]
    return project


def _write_notes(version: str) -> None:
    [notes] = [section for section in sections(_look().changelog) if section.name == version]
    (OUTPUT / "notes.md").write_text(f"# Asset Watcher {version}\n\n{notes.text}\n", encoding="utf-8")


def _build_wheels() -> None:
    """The application's wheel and the job SDK's, from the commit, with the pinned setuptools of .venv; no network is used."""
    with _exported() as folder:
        projects = [folder, *(part for part in [folder / "sdk"] if (part / "pyproject.toml").exists())]
        for project in projects:
            words = ["--no-deps", "--no-index", "--no-build-isolation", "--wheel-dir", str(OUTPUT), str(project)]
            _run(sys.executable, "-m", "pip", "wheel", "--disable-pip-version-check", "--quiet", *words)


@contextmanager
def _exported() -> Iterator[Path]:
    """Yield a folder with the files of the commit. Their times are those of the commit."""
    with tempfile.TemporaryDirectory(prefix="watcher-release-") as name:
        archive = subprocess.run(["git", "archive", "HEAD"], cwd=ROOT, capture_output=True, check=True).stdout
        subprocess.run(["tar", "--extract"], cwd=name, input=archive, check=True)
        yield Path(name)


def _write_bill(version: str) -> None:
    """Write the bill of the pinned requirements: Python's distributions, and Spark's jars as they are in .venv."""
    program, pins = ROOT / "tools" / "image" / "sbom.py", ROOT / "requirements" / "runtime.txt"
    bill = _output(sys.executable, program, pins, sys.prefix, version)
    (OUTPUT / f"asset-watcher-{version}.cdx.json").write_text(bill, encoding="utf-8")


def _build_image(version: str, arguments: Sequence[str]) -> None:
    """Build the image and copy its bill of materials. `arguments` go to the engine's `build`.

    Without a container tool, print one sentence.
    """
    engine = _engine()
    if engine is None:
        print("No image is built: neither docker nor podman is at hand.")
        return
    name = f"asset-watcher:{version}"
    _run(ROOT / "tools" / "image" / "build", name, *arguments, ENGINE=engine)
    bill = OUTPUT / f"asset-watcher-{version}-image.cdx.json"
    container = _output(engine, "create", name).strip()  # a file is copied from it; it never runs
    try:
        _run(engine, "cp", f"{container}:/opt/watcher/sbom.cdx.json", bill)
    finally:
        _output(engine, "rm", container)
    identity = _output(engine, "image", "inspect", "--format", "{{.Id}}", name)
    (OUTPUT / "image.txt").write_text(f"{name} {identity}", encoding="utf-8")


def _engine() -> str | None:
    """Return the container engine that tools/image/build chooses."""
    if chosen := os.environ.get("ENGINE"):
        return chosen
    docker = shutil.which("docker")
    if docker and subprocess.run([docker, "info"], capture_output=True, check=False).returncode == 0:
        return docker
    return shutil.which("podman")


def _write_checksums() -> None:
    """Write checksums in the format that `sha256sum --check` reads."""
    lines = []
    for path in sorted(OUTPUT.iterdir()):
        with path.open("rb") as file:
            lines.append(f"{file_digest(file, 'sha256').hexdigest()}  {path.name}\n")
    (OUTPUT / "SHA256SUMS").write_text("".join(lines), encoding="utf-8")


def _offer_tag(version: str) -> None:
    command = ["git", "tag", "--annotate", f"v{version}", "--message", f"Asset Watcher {version}"]
    print(f'To tag it: git tag --annotate v{version} --message "Asset Watcher {version}"')
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        return
    if input("Tag this commit now? Only `yes` does: ") == "yes":
        _run(*command)
        print(f"Tagged. To publish it: git push origin v{version}")
    else:
        print("Not tagged.")


def _run(*words: str | Path, **environment: str) -> None:
    """Run a program that prints its own output. Exit with its exit code if it fails."""
    epoch = _output("git", "log", "-1", "--format=%ct").strip()
    done = subprocess.run(words, cwd=ROOT, env={**os.environ, "SOURCE_DATE_EPOCH": epoch, **environment}, check=False)
    if done.returncode != 0:
        print(f"No release: {Path(words[0]).name} {' '.join(map(str, words[1:4]))} failed.", file=sys.stderr)
        sys.exit(done.returncode)


def _output(*words: str | Path) -> str:
    return subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True).stdout


if __name__ == "__main__":
    main()
