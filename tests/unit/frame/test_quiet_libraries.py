"""Libraries write no lines of their own into terminals and logs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

RETRYING = """
import anyio
from triggers.errors import SourceUnavailable
from triggers.s3 import listing

async def failing() -> None:
    raise SourceUnavailable("gone")

async def main() -> None:
    try:
        await listing._retrying(failing)
    except SourceUnavailable as error:
        print(f"given up: {error}")

anyio.run(main)
"""


@pytest.mark.parametrize(
    ("program", "output"),
    [
        (RETRYING, "given up: gone\n"),
        ("from watcher.shared.servers import postgres_wheel; postgres_wheel()", ""),
    ],
)
@pytest.mark.parametrize("runtime", [None, "/tmp", "relative"])  # noqa: S108  a folder of everybody's
def test_nothing_is_written_but_what_we_write(program: str, output: str, runtime: str | None, tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "XDG_RUNTIME_DIR"}
    if runtime is not None:
        environment["XDG_RUNTIME_DIR"] = runtime
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True, cwd=tmp_path
    )
    assert (done.stdout, done.stderr) == (output, "")
