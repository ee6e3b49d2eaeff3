"""Commands import what they need and no more: the API alone takes a second."""

from __future__ import annotations

import subprocess
import sys

import pytest

LIGHT = {"watcher.cli.app": "sqlalchemy", "watcher.cli.database": "fastapi"}


@pytest.mark.parametrize(("module", "heavy"), LIGHT.items(), ids=LIGHT)
def test_what_a_command_needs_not_is_not_imported(module, heavy):
    program = f"import sys, {module}; sys.exit({heavy!r} in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
