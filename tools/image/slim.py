"""Removes from an installed Python environment what a Linux image of one processor never loads.

Run while the image is built, with the environment's folder as the only argument. It removes native libraries of other
systems and processors from Spark's jars, the parts of libraries that only debuggers and linkers read, C and Cython sources,
pyarrow's tests, and the server of Spark Connect, whose client is not installed. It removes no Python module and no licence.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

_PROCESSORS: Final = {"x86_64": {"x86_64", "amd64", "linux64"}, "aarch64": {"aarch64", "aarch_64"}}
"""The words for this system and processor in the names of native libraries."""
_FOREIGN: Final = re.compile(
    "aix|android|darwin|freebsd|mac|macos|musl|osx|sunos|win|windows|win32|win64|"
    "arm|arm64|armv6|armv7|i386|x86|linux32|loongarch64|mips64|ppc|ppc64|ppc64le|riscv64|s390x|sparc|"
    "x86_64|amd64|linux64|aarch64|aarch_64"
)
_NATIVE: Final = (".so", ".dll", ".dylib", ".jnilib")
_NEVER_LOADED: Final = (
    "pyarrow/tests",
    "pyarrow/include",
    "pyspark/jars/spark-connect_*.jar",
    "pyspark/jars/connect-repl",
)
_SOURCES: Final = {".c", ".cc", ".cpp", ".h", ".hpp", ".pxd", ".pxi", ".pyx"}


def main(environment: Path) -> None:
    processor = _PROCESSORS[platform.machine()]
    for packages in environment.glob("lib/python3*/site-packages"):
        for path in [path for pattern in _NEVER_LOADED for path in packages.glob(pattern)]:
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        for source in [path for path in packages.rglob("*") if path.suffix in _SOURCES]:
            source.unlink()
        libraries = [str(file) for file in packages.rglob("*.so*") if file.read_bytes()[:4] == b"\x7fELF"]
        subprocess.run(["strip", "--strip-unneeded", *libraries], check=True)
        for jar in sorted((packages / "pyspark" / "jars").glob("*.jar")):
            _slim(jar, processor)


def is_foreign(name: str, processor: set[str]) -> bool:
    """Return whether a file in a jar is a native library of another system or processor."""
    return name.endswith(_NATIVE) and any(
        _FOREIGN.fullmatch(word) and word not in processor for word in _words(name.lower())
    )


def _words(name: str) -> Iterator[str]:
    """Split a path into words. `x86_64` and `aarch_64` are one word each."""
    yield from re.findall("x86_64|aarch_64|[a-z0-9]+", name)


def _slim(jar: Path, processor: set[str]) -> None:
    with zipfile.ZipFile(jar) as whole:
        foreign = {name for name in whole.namelist() if is_foreign(name, processor)}
        if not foreign:
            return
        kept = [entry for entry in whole.infolist() if entry.filename not in foreign]
        stat, smaller = jar.stat(), jar.with_suffix(".smaller")
        with zipfile.ZipFile(smaller, "w", zipfile.ZIP_DEFLATED) as written:
            for entry in kept:
                written.writestr(entry, whole.read(entry), entry.compress_type)
    os.utime(smaller, (stat.st_mtime, stat.st_mtime))
    smaller.replace(jar)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
