"""The image has the promised contents, size and labels."""

from __future__ import annotations

import json
import re
from pathlib import Path
from urllib.parse import unquote

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

from tests.container.engine import ROOT, build, inspected, once, podman
from watcher.host.machine import program_version

pytestmark = pytest.mark.container

LARGEST = 1_200_000_000
"""The largest size in bytes, unpacked, with the base."""


def test_the_image_is_no_larger_than_promised(image: str) -> None:
    assert inspected("image", image)["Size"] <= LARGEST


def test_the_labels_name_the_program_and_its_version(image: str) -> None:
    labels = inspected("image", image)["Config"]["Labels"]
    assert labels["org.opencontainers.image.title"] == "Asset Watcher"
    assert labels["org.opencontainers.image.version"] == program_version()
    assert re.fullmatch("[0-9a-f]{40}(-dirty)?|unknown", labels["org.opencontainers.image.revision"])
    assert labels["org.opencontainers.image.licenses"] == "Apache-2.0"


def test_the_bill_of_materials_names_everything_in_the_image(image: str) -> None:
    text = once(image, "/opt/watcher/sbom.cdx.json", flags=("--entrypoint=cat",)).stdout
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(text) is None
    names = {unquote(component["purl"]).partition("@")[0] for component in json.loads(text)["components"]}
    assert {"pkg:deb/debian/tini", "pkg:pypi/asset-watcher"} <= names
    assert {"pkg:pypi/pyspark", "pkg:maven/com.fasterxml.jackson.core/jackson-databind"} <= names
    packages = once(image, "-f", "${Package}\n", "-W", flags=("--entrypoint=dpkg-query",)).stdout.split()
    debian = {*packages, "openjdk-17-jdk-headless"}  # sources of Java
    assert {f"pkg:deb/debian/{package}" for package in debian} == {n for n in names if n.startswith("pkg:deb/")}


def test_the_image_has_no_tool_that_builds_or_installs(image: str) -> None:
    look = "for name in pip pip3 gcc cc make javac git curl; do command -v $name; done; python -m pip --version"
    answer = once(image, "-c", look, flags=("--entrypoint=sh",), code=1)
    assert answer.stdout == ""
    assert "No module named pip" in answer.stderr


def test_java_trusts_the_system_certificates(image: str) -> None:
    certificates = "/etc/ssl/certs/ca-certificates.crt"
    system = once(image, "-c", "BEGIN CERTIFICATE", certificates, flags=("--entrypoint=grep",)).stdout
    java = once(image, "-list", "-cacerts", "-storepass", "changeit", flags=("--entrypoint=keytool",)).stdout
    assert 50 < java.count("trustedCertEntry") == int(system)


def test_nothing_is_compiled_again_at_each_start(image: str) -> None:
    look = ("-v", "-c", "import pyspark, sqlalchemy, watcher.app")
    trace = once(image, *look, flags=("--entrypoint=python",)).stderr
    assert " matches /opt/watcher/" in trace
    assert "bytecode is stale" not in trace


def test_the_class_archive_fits_the_image(image: str) -> None:
    assert "the class archive is there" in once(image, "spark", "archive").stdout


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        (("--version",), program_version()),
        (("check",), "is right"),
        (("db", "upgrade"), "the schema is this program's"),
        (("token", "create", "--subject", "me", "--role", "admin"), ""),
        (("schema",), "$defs"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_the_entry_point_passes_commands_on(image: str, words: tuple[str, ...], answer: str) -> None:
    configuration = f"--volume={ROOT / 'examples' / 'quickstart'}:/etc/watcher:ro"
    given = once(image, *words, flags=(configuration, "--read-only", "--user=1234567:0", "--passwd=false"))
    assert answer in given.stdout


def test_a_library_is_added_as_the_page_says(image: str, tmp_path: Path) -> None:
    page = (ROOT / "docs" / "container.md").read_text(encoding="utf-8")
    [dockerfile] = re.findall("^```dockerfile\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    (tmp_path / "Dockerfile").write_text(dockerfile)
    (tmp_path / "requirements.txt").write_text("humanize==4.12.3\n")
    name = "localhost/asset-watcher:derived"
    try:
        build(name, tmp_path, f"--build-arg=IMAGE={image}")
        once(name, "-c", "import humanize, watcher, pyspark", flags=("--entrypoint=python",))
        assert inspected("image", name)["Config"]["User"] == inspected("image", image)["Config"]["User"]
        grown = inspected("image", name)["Size"] - inspected("image", image)["Size"]
        assert grown < 10_000_000, "nothing of what installed it stays"
    finally:
        podman("rmi", "--force", name, code=None)
