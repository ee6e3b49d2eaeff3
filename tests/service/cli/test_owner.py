"""The account that can read a daemon's home uses the daemon without a token, and signs browsers in by links."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import anyio
import httpx

from tests.effort import PATIENCE
from watcher.features.demo.daemon import running_daemon
from watcher.host.home import known_secret
from watcher.serving import owner_tokens
from watcher.shared.servers import free_port

CONFIGURATION = """
version: 1
settings: {{home: {home}, api: {{port: {port}}}}}
assets:
  landing:
    watchers:
      landing_files: {{trigger: file.new_files, path: {path}}}
"""


async def watcher(folder: Path, *words: str) -> tuple[int, str, str]:
    environment = {name: value for name, value in os.environ.items() if name != "WATCHER_TOKEN"}
    with anyio.fail_after(PATIENCE):
        ended = await anyio.run_process(
            [sys.executable, "-m", "watcher", *words], check=False, cwd=folder, env=environment
        )
    return ended.returncode, ended.stdout.decode(), ended.stderr.decode()


async def test_the_owner_of_the_home_needs_no_token_and_makes_links(tmp_path: Path) -> None:
    port, inbox, home = free_port(), tmp_path / "inbox", tmp_path / "home"
    inbox.mkdir()
    file = tmp_path / "watchers.yaml"
    file.write_text(CONFIGURATION.format(home=home, port=port, path=inbox))
    url = f"http://127.0.0.1:{port}"
    async with (
        running_daemon(file, url, dict(os.environ)),
        httpx.AsyncClient(base_url=url, follow_redirects=True) as browser,
    ):
        status, shown, _ = await watcher(tmp_path, "status", "--json")
        assert status == 0
        assert "running" in json.loads(shown)["watchers"]
        status, _, refused = await watcher(tmp_path, "status", "--url", url)
        assert status != 0
        assert "--token" in refused
        status, _, _ = await watcher(tmp_path, "pause", "landing_files")
        assert status == 0
        _, link, _ = await watcher(tmp_path, "sign-in-link", "--role", "viewer")
        secret = parse_qs(urlsplit(link.strip()).query)["link"][0]
        page = await browser.get(link.strip())
        assert "Sign in with this link" in page.text
        signed_in = await browser.post("/sign-in", data={"link": secret}, headers={"Origin": url})
        assert signed_in.status_code == 200
        again = await browser.post("/sign-in", data={"link": secret}, headers={"Origin": url})
        assert again.status_code == 403
        key = known_secret(home)
        assert key is not None
        foreign = {"Authorization": f"Bearer {owner_tokens.issue(b'x' * 64, 'cli:mallory')}"}
        assert (await browser.get("/api/v2/assets", headers=foreign)).status_code == 403
        headers = {"Authorization": f"Bearer {owner_tokens.issue(key, 'cli:ann')}"}
        entries = (await browser.get("/api/v2/audit", headers=headers)).json()["audit"]
        pausing = [entry for entry in entries if entry["action"] == "watcher.pause"]
        assert [entry["actor"].partition(":")[0] for entry in pausing] == ["cli"]
        log = "".join(each.read_text() for each in (home / "logs").rglob("*") if each.is_file())
        assert secret not in log
