"""`watcher run` on a terminal shows one link to sign in with, and nowhere else; `watcher open` makes the browser one of its own."""

from __future__ import annotations

import os
import re
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from time import monotonic
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest

from tests.effort import PATIENCE
from watcher.shared.servers import free_port

LINK = re.compile(rb"http://\S+/sign-in\?link=\S+")
CONFIGURATION = """
version: 1
settings: {{home: home, api: {{port: {port}}}}}
assets:
  landing:
    watchers:
      landing_files: {{trigger: file.new_files, path: inbox}}
"""
BROWSER = """#!/bin/sh
echo "$1" > {seen}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "inbox").mkdir()
    (tmp_path / "watchers.yaml").write_text(CONFIGURATION.format(port=free_port()))
    return tmp_path


@contextmanager
def on_a_terminal(folder: Path) -> Iterator[int]:
    """Run the daemon with a terminal as its output, stderr in a file; yield the other end of the terminal."""
    ours, its = os.openpty()
    environment = {name: value for name, value in os.environ.items() if not name.startswith("WATCHER_")}
    with (folder / "stderr").open("wb") as stderr:
        daemon = subprocess.Popen(
            [sys.executable, "-m", "watcher", "run", "--upgrade"],
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=its,
            stderr=stderr,
            start_new_session=True,
        )
    os.close(its)
    try:
        yield ours
    finally:
        daemon.send_signal(signal.SIGINT)
        assert daemon.wait(PATIENCE) == 0, (folder / "stderr").read_text()
        os.close(ours)


def read_until(terminal: int, pattern: re.Pattern[bytes]) -> bytes:
    shown, until = b"", monotonic() + PATIENCE
    while not pattern.search(shown):
        assert monotonic() < until, shown
        shown += os.read(terminal, 4096)
    return shown


def rest_of(terminal: int) -> bytes:
    os.set_blocking(terminal, False)
    rest = b""
    with suppress(OSError):  # nothing is there, or nobody is at the other end
        while some := os.read(terminal, 4096):
            rest += some
    return rest


def signs_in(link: str) -> bool:
    """Whether the link signs a browser in."""
    url, secret = link.split("/sign-in", maxsplit=1)[0], parse_qs(urlsplit(link).query)["link"][0]
    with httpx.Client(base_url=url, headers={"Origin": url}) as browser:
        answer = browser.post("/sign-in", data={"link": secret})
        return answer.status_code == 303 and browser.get("/").status_code == 200


def test_a_link_is_shown_once_on_a_terminal_and_in_no_log(folder: Path) -> None:
    with on_a_terminal(folder) as terminal:
        shown = read_until(terminal, re.compile(LINK.pattern + rb"\s"))
        [link] = LINK.findall(shown)
        assert b"once and within five minutes" in shown
        assert signs_in(link.decode())
        assert not signs_in(link.decode()), "a link is for one use"
        _open(folder)
        assert LINK.search(rest_of(terminal)) is None
    secret = parse_qs(urlsplit(link.decode()).query)["link"][0]
    written = [file.read_bytes() for file in (folder / "home").rglob("*") if stat.S_ISREG(file.stat().st_mode)]
    assert [each for each in [*written, (folder / "stderr").read_bytes()] if secret.encode() in each] == []


def _open(folder: Path) -> None:
    """Open the page of a watcher: the browser gets a link for one use, and the terminal the page's address without it."""
    seen, browser = folder / "seen", folder / "browser"
    browser.write_text(BROWSER.format(seen=seen))
    browser.chmod(0o700)
    environment = {**os.environ, "BROWSER": f"{browser} %s"}
    command = [sys.executable, "-m", "watcher", "open", "landing_files"]
    ended = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=True)
    assert ended.stdout.strip().endswith("/watchers/landing_files")
    link = seen.read_text().strip()
    assert LINK.fullmatch(link.encode())
    assert parse_qs(urlsplit(link).query)["next"] == ["/watchers/landing_files"]
    assert signs_in(link)
    assert not signs_in(link)
