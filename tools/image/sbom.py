"""Prints what an image or a release is made of, as CycloneDX JSON: Debian's packages, Python's distributions, Spark's jars.

Run by a Python that has cyclonedx-python-lib. For an image, while it is built: the arguments are the folder of the installed
environment, dpkg's own as it is in the image and as it is where Java was made of its package, and the version. For a release:
the file of the pinned requirements, an environment that has Spark, and the version.
"""

from __future__ import annotations

import re
import subprocess
import sys
import zipfile
from collections.abc import Iterable, Iterator
from importlib.metadata import distributions
from pathlib import Path
from typing import Final

from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL

_JAVA: Final = "openjdk-17-jdk-headless"


_PIN: Final = re.compile(r"^([\w.-]+)(?:\[[^\]]*\])?==([^\s;]+)", re.MULTILINE)


def main(*arguments: str) -> None:
    *paths, version = arguments
    match [*map(Path, paths)]:
        case [environment, dpkg, with_java]:
            urls = [*_of_debian(dpkg, with_java), *_of_python(environment), *_of_spark(environment)]
            _print(urls, version, ComponentType.CONTAINER)
        case [pins, environment]:
            _print([*_of_pins(pins.read_text()), *_of_spark(environment)], version, ComponentType.APPLICATION)


def _print(urls: Iterable[PackageURL], version: str, kind: ComponentType) -> None:
    bom = Bom()
    bom.metadata.component = Component(name="asset-watcher", version=version, type=kind)
    for url in sorted(set(urls), key=str):
        bom.components.add(
            Component(
                group=url.namespace if url.type == "maven" else None,
                name=url.name,
                version=url.version,
                purl=url,
                bom_ref=str(url),
                type=ComponentType.LIBRARY,
            )
        )
    bom.register_dependency(bom.metadata.component, bom.components)
    sys.stdout.write(JsonV1Dot6(bom).output_as_string(indent=1))


def _of_debian(dpkg: Path, with_java: Path) -> Iterator[PackageURL]:
    for words in (f"--admindir={dpkg}", "--show"), (f"--admindir={with_java}", "--show", _JAVA):
        form = "--showformat=${Package}\t${Version}\t${Architecture}\n"
        listed = subprocess.run(["dpkg-query", form, *words], capture_output=True, text=True, check=True)
        for line in listed.stdout.splitlines():
            name, version, architecture = line.split("\t")
            yield PackageURL("deb", "debian", name, version, {"arch": architecture})


def _of_python(environment: Path) -> Iterator[PackageURL]:
    folders = [str(folder) for folder in environment.glob("lib/python3*/site-packages")]
    for distribution in distributions(path=folders):
        yield PackageURL("pypi", None, distribution.metadata["Name"].lower().replace("_", "-"), distribution.version)


def _of_pins(text: str) -> Iterator[PackageURL]:
    """Every pinned version, also those for another Python or system."""
    for name, version in _PIN.findall(text):
        yield PackageURL("pypi", None, name.lower().replace("_", "-"), version)


def _of_spark(environment: Path) -> Iterator[PackageURL]:
    for jar in environment.glob("lib/python3*/site-packages/pyspark/jars/*.jar"):
        name, version = _divided(jar.stem)
        yield PackageURL("maven", _group(jar, name), name, version or None)


def _divided(stem: str) -> tuple[str, str]:
    """Split a jar's name into name and version. The version begins with the first word that begins with a digit."""
    words = stem.split("-")
    at = next((place for place, word in enumerate(words) if word[:1].isdigit()), len(words))
    return "-".join(words[:at]), "-".join(words[at:])


def _group(jar: Path, name: str) -> str | None:
    """Return the group that a jar made by Maven names in itself."""
    with zipfile.ZipFile(jar) as content:
        for entry in content.namelist():
            if entry.startswith("META-INF/maven/") and entry.endswith(f"/{name}/pom.properties"):
                return entry.split("/")[2]
    return None


if __name__ == "__main__":
    main(*sys.argv[1:])
