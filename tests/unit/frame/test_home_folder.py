from __future__ import annotations

from pathlib import Path

import pytest

from watcher.errors import StartRefused
from watcher.host.home import open_home


@pytest.mark.parametrize("name", ["a:b", "a,b", "a#b", "a*", "a?", "[a]", "{a}", "a\\b"])
def test_a_home_whose_files_no_job_could_use_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(StartRefused, match="which has a special meaning for Spark; choose another folder"):
        open_home(tmp_path / name).__enter__()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["a home", "höme", "100%20", "a+b=c;d&e'f"])
def test_other_homes_are_made(tmp_path: Path, name: str) -> None:
    with open_home(tmp_path / name) as home:
        assert home.folder == tmp_path / name
    with open_home(tmp_path / name) as again:
        assert again.id == home.id


def test_a_home_remembers_its_last_daemon(tmp_path: Path) -> None:
    with open_home(tmp_path / "home") as home:
        assert home.last_process() is None
        home.remember_process("one")
    with open_home(tmp_path / "home") as home:
        assert home.last_process() == "one"
        (home.folder / "process").write_bytes(b"\xff")
        assert home.last_process() is None


@pytest.mark.parametrize("mode", [0o701, 0o704, 0o710, 0o750, 0o755, 0o777])
def test_a_home_that_is_open_to_other_accounts_is_refused(tmp_path: Path, mode: int) -> None:
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    home.chmod(mode)
    with pytest.raises(StartRefused, match=f"is open to other accounts.*chmod 700 {home}"):
        open_home(home).__enter__()
    home.chmod(0o700)
    with open_home(home) as opened:
        assert len(opened.secret()) == 64
        (home / "secret").chmod(0o640)
        with pytest.raises(StartRefused, match=f"secret is open to other accounts.*chmod 600 {home}/secret"):
            opened.secret()
