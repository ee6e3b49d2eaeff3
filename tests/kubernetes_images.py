"""Images for a node that has no registry, made of this machine's own programs."""

from __future__ import annotations

import hashlib
import io
import json
import os
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterable, Mapping
from importlib.util import find_spec
from pathlib import Path
from shutil import which

from tests.stand_in_spark import PROGRAM

IMAGE = "localhost/driver:1"
"""It has Python, and the stand-in for Spark."""
SPARK_IMAGE = "localhost/spark:1"
"""It has Python, Java and PySpark, as an image that somebody built without Spark's own entry point."""
PAUSE = "localhost/pause:1"
SPARK_HOME = "/opt/spark"
"""The stand-in for Spark in the image."""
PYTHON = Path("/usr/bin/python3.11")
_LIBRARY = Path("/usr/lib/python3.11")
_PACKAGES = "/usr/local/lib/python3.11/dist-packages"
_JAVA = "/opt/java"
_SYSTEM = Path("/lib/x86_64-linux-gnu")
_NOT_NEEDED = frozenset({"__pycache__", "test", "jmods", "legal", "man", "ct.sym", "examples"})


def write_pause_image(folder: Path) -> Path:
    return _write(folder / "pause.tar", PAUSE, lambda _files: None)


def write_driver_image(folder: Path) -> Path:
    return _write(folder / "driver.tar", IMAGE, _add_driver)


def write_spark_image(folder: Path) -> Path:
    """Write the image of Spark, 700 MB."""
    home = {"JAVA_HOME": _JAVA, "SPARK_HOME": f"{_PACKAGES}/pyspark"}
    return _write(folder / "spark.tar", SPARK_IMAGE, _add_spark, home)


def _write(
    path: Path, name: str, add: Callable[[tarfile.TarFile], None], variables: Mapping[str, str] | None = None
) -> Path:
    """Write an image of busybox and of what `add` adds."""
    layer = path.with_suffix(".layer")
    with tarfile.open(layer, mode="w") as files:
        for folder in ("tmp", "etc", "dev", "proc", "sys", "asset-watcher"):
            _add_entry(files, folder, tarfile.DIRTYPE)
        files.add(str(which("busybox")), "bin/busybox")
        for word in ("sh", "sleep"):
            _add_entry(files, f"bin/{word}", tarfile.SYMTYPE, "busybox")
        add(files)
    with layer.open("rb") as content:
        digest = hashlib.file_digest(content, "sha256").hexdigest()
    environment = {"PATH": "/usr/bin:/bin", **(variables or {})}
    config = {
        "architecture": "amd64",
        "os": "linux",
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}"]},
        "config": {
            "Env": [f"{key}={value}" for key, value in environment.items()],
            "User": "10001:0",
            "Entrypoint": ["/bin/sleep", "2147483647"],
        },
    }
    text = json.dumps(config).encode()
    file = f"{hashlib.sha256(text).hexdigest()}.json"
    manifest = [{"Config": file, "RepoTags": [name], "Layers": ["layer.tar"]}]
    with tarfile.open(path, "w") as image:
        for inner, data in ((file, text), ("manifest.json", json.dumps(manifest).encode())):
            _add_file(image, inner, data)
        image.add(layer, "layer.tar")
    layer.unlink()
    return path


def _add_driver(files: tarfile.TarFile) -> None:
    _add_python(files)
    spark = PROGRAM.replace(sys.executable, "/usr/bin/python3").encode()
    _add_file(files, f"{SPARK_HOME[1:]}/bin/spark-submit", spark, 0o755)


def _add_spark(files: tarfile.TarFile) -> None:
    _add_python(files)
    java = Path(os.path.realpath(str(which("java")))).parents[1]
    _add_folder(files, java, _JAVA)
    _add_libraries(files, [java / "bin" / "java", *java.glob("lib/*.so"), *java.glob("lib/server/*.so")])
    for name in ("pyspark", "py4j"):
        package = find_spec(name)
        assert package is not None, name
        assert package.origin is not None, name
        _add_folder(files, Path(package.origin).parent, f"{_PACKAGES}/{name}")
    bash = Path(str(which("bash")))
    files.add(bash, "bin/bash")
    _add_libraries(files, [bash])
    for library in ("libdl.so.2", "libpthread.so.0", "librt.so.1"):  # libraries in Spark's jars ask for them
        files.add(os.path.realpath(_SYSTEM / library), f"{_SYSTEM}/{library}"[1:])
    for word in ("basename", "cat", "dirname", "env", "head", "ls", "ps", "readlink", "rm", "tr", "uname"):
        _add_entry(files, f"usr/bin/{word}", tarfile.SYMTYPE, "/bin/busybox")
    # Java asks the system for the name of its user, and Spark for addresses by name.
    _add_file(files, "etc/passwd", b"spark:x:10001:0::/tmp:/bin/sh\n")
    _add_file(files, "etc/nsswitch.conf", b"passwd: files\nhosts: files dns\n")


def _add_python(files: tarfile.TarFile) -> None:
    files.add(PYTHON, str(PYTHON)[1:])
    _add_entry(files, "usr/bin/python3", tarfile.SYMTYPE, PYTHON.name)
    _add_folder(files, _LIBRARY, str(_LIBRARY))
    _add_libraries(files, [PYTHON, *_LIBRARY.glob("lib-dynload/*.so")])


def _add_folder(files: tarfile.TarFile, folder: Path, name: str) -> None:
    """Add the files that programs need of a folder, and what links lead to in place of the links: it may be elsewhere."""
    for path in sorted(folder.rglob("*")):
        inner = path.relative_to(folder)
        is_needed = not _NOT_NEEDED.intersection(inner.parts) and not inner.parts[0].startswith("config-3")
        if is_needed and path.is_file():
            files.add(path.resolve(), f"{name[1:]}/{inner}")


def _add_libraries(files: tarfile.TarFile, programs: Iterable[Path]) -> None:
    libraries: set[str] = set()
    for program in programs:
        listed = subprocess.run(["ldd", str(program)], check=True, capture_output=True, text=True).stdout
        libraries |= {word for word in listed.split() if word.startswith("/")}
    for library in libraries:
        files.add(os.path.realpath(library), os.path.normpath(library)[1:])


def _add_file(files: tarfile.TarFile, name: str, content: bytes, mode: int = 0o644) -> None:
    entry = tarfile.TarInfo(name)
    entry.mode, entry.size = mode, len(content)
    files.addfile(entry, io.BytesIO(content))


def _add_entry(files: tarfile.TarFile, name: str, kind: bytes, target: str = "") -> None:
    entry = tarfile.TarInfo(name)
    entry.type, entry.mode, entry.linkname = kind, 0o1777, target
    files.addfile(entry)
