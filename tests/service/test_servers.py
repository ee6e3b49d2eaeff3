"""PostgreSQL as the demo and the tests start it, on a machine where nobody has."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

USER = "pgserver"
"""The wheel's, which it makes for root."""
WITHOUT_USER = f"""
mount --bind "$0" /etc || exit
sed --in-place "/^{USER}:/d" /etc/passwd /etc/group /etc/shadow /etc/gshadow
exec "$@"
"""
AT_ONCE = """
import os, sys
from watcher.shared.servers import postgres_wheel, running_postgres

postgres_wheel()

beginners, go = os.pipe()
for _ in range(3):
    if not os.fork():
        os.close(go)
        os.read(beginners, 1)
        with running_postgres():
            pass
        os._exit(0)
os.close(beginners)
os.close(go)
sys.exit(max(os.wait()[1] for _ in range(3)) != 0)
"""


@pytest.mark.service
@pytest.mark.skipif(os.geteuid() != 0, reason="a user is made for root only")
def test_several_that_are_the_first_on_a_machine_start_theirs_at_once(tmp_path: Path) -> None:
    """As the workers of `make test` do: a user that is made twice loses the id that one of them has gone on with."""
    users = tmp_path / "etc"
    shutil.copytree("/etc", users, symlinks=True)
    alone = ["unshare", "--mount", "sh", "-c", WITHOUT_USER, str(users)]
    if subprocess.run([*alone, "true"], capture_output=True, check=False).returncode:
        pytest.skip("this root may not mount")
    ended = subprocess.run([*alone, sys.executable, "-c", AT_ONCE], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr


def test_a_machine_without_a_runtime_folder_starts_it_without_a_warning() -> None:
    program = "from watcher.shared.servers import postgres_wheel; postgres_wheel()"
    environment = {name: value for name, value in os.environ.items() if name != "XDG_RUNTIME_DIR"}
    words = [sys.executable, "-W", "always", "-c", program]
    started = subprocess.run(words, env=environment, capture_output=True, text=True, check=True)
    assert "XDG_RUNTIME_DIR" not in started.stderr
