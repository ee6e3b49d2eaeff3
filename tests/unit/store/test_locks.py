"""Only one process may hold a file."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from store.errors import HeldElsewhere
from store.processes.file_locks import exclusive

HOLDER = """
import sys, pathlib
from store.processes.file_locks import exclusive
with exclusive(pathlib.Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_a_second_holder_is_refused_with_the_file_and_the_process(tmp_path: Path) -> None:
    path = tmp_path / "watcher.db.lock"
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(HeldElsewhere) as refused, exclusive(path):
            pass
        assert str(refused.value) == f"the process {holder.pid} holds {path}; stop it first, or choose another home"
        holder.kill()
        holder.wait()
        with exclusive(path):
            pass


def test_the_holder_is_named_only_when_it_is_known(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with exclusive(path):
        path.write_text("garbage")
        with pytest.raises(HeldElsewhere, match=r"^another process holds .*; stop it first"), exclusive(path):
            pass


def test_the_lock_is_free_after_the_block_however_it_ends(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with pytest.raises(ZeroDivisionError), exclusive(path):
        raise ZeroDivisionError
    with exclusive(path):
        assert path.read_text() == f"{os.getpid()}\n"
    assert path.read_text() == ""


def test_a_program_that_outlives_the_holder_does_not_inherit_the_lock(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER_WITH_CHILD, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        child = int(holder.stdout.readline())
        holder.kill()
        holder.wait()
        with exclusive(path):
            os.kill(child, 0)  # it lives


HOLDER_WITH_CHILD = """
import subprocess, sys, pathlib
from store.processes.file_locks import exclusive
with exclusive(pathlib.Path(sys.argv[1])):
    child = [sys.executable, "-c", "import os, sys; print(os.getpid(), flush=True); sys.stdin.read()"]
    subprocess.run(child, close_fds=False)
"""
