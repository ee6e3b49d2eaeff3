"""A SPARK_HOME whose Python is the installed package, for jobs on this machine.

Spark puts the zips of its `python/lib` before everything else on the import path, of the driver and of each kind of Python
worker, and what Python imports from a zip it compiles anew in each process: more than a second of CPU time each.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp


def linked_spark(home: Path, spark_home: Path) -> Path:
    """A folder of links in the daemon's home that is `spark_home` with packages in place of its zips, made on first use.

    `spark_home` itself, unless it is a pyspark package with py4j beside it, as pip installs them. Raises `OSError`.
    """
    zips = sorted(file.name for file in (spark_home / "python" / "lib").glob("py*.zip"))
    packages = {name: spark_home.parent / name.removesuffix(".zip").partition("-")[0] for name in zips}
    if not packages or not all((package / "__init__.py").exists() for package in packages.values()):
        return spark_home
    digest = hashlib.sha256("\n".join([str(spark_home), *zips]).encode()).hexdigest()
    linked = home / "spark" / digest[:16]
    if not linked.exists():
        linked.parent.mkdir(parents=True, exist_ok=True)
        unfinished = Path(mkdtemp(dir=linked.parent, prefix="."))
        _link(unfinished, spark_home, packages)
        try:
            unfinished.rename(linked)
        except OSError:  # another job was quicker
            rmtree(unfinished)
    return linked


def _link(folder: Path, spark_home: Path, packages: dict[str, Path]) -> None:
    """A folder that is called as a zip is one to Python all the same; `conf` may come later."""
    for name in {"conf", *(entry.name for entry in spark_home.iterdir())} - {"python"}:
        (folder / name).symlink_to(spark_home / name)
    for name, package in packages.items():
        place = folder / "python" / "lib" / name
        place.mkdir(parents=True)
        (place / package.name).symlink_to(package)
