"""Clients generated from the document in Python and in TypeScript compile and work."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

import anyio
import pytest

from tests.service.api.application import Api
from tests.service.api.served import served

pytestmark = pytest.mark.slow
REQUIREMENTS: Final = Path(__file__).parents[3] / "requirements/clients.txt"
TYPESCRIPT: Final = Path(__file__).with_name("typescript")
CALLS: Final = """
import sys

from client import Client
from client.api.asset import get_asset_api_v2_assets_asset_id_get as get_asset
from client.api.asset import list_assets_api_v2_assets_get as list_assets
from client.api.asset_event import create_event_api_v2_assets_events_post as create_event
from client.api.asset_store import get_entry_api_v2_assets_asset_id_store_key_get as get_entry
from client.api.asset_store import set_entry_api_v2_assets_asset_id_store_key_put as set_entry
from client.models import CreateAssetEventsBody, CreateAssetEventsBodyExtra, Refusal, SetEntry

client = Client(base_url=sys.argv[1])
[asset] = list_assets.sync(client=client, name_pattern="orders").assets
written = set_entry.sync_detailed(asset.id, "k", client=client, body=SetEntry(value={"rows": 42}))
assert written.status_code == 204, written
entry = get_entry.sync(asset.id, "k", client=client)
assert (entry.value, entry.last_updated_by.kind) == ({"rows": 42}, "api"), entry
extra = CreateAssetEventsBodyExtra.from_dict({"rows": 42})
event = create_event.sync(client=client, body=CreateAssetEventsBody(asset_id=asset.id, extra=extra))
assert event.extra["rows"] == 42, event
missing = get_asset.sync_detailed(999, client=client)
assert missing.status_code == 404 and isinstance(missing.parsed, Refusal), missing
print("called")
"""


@pytest.fixture
async def document(api: Api, tmp_path: Path) -> Path:
    path = tmp_path / "openapi.json"
    path.write_text(json.dumps(await api.get("/openapi.json")))
    return path


async def run(*words: str | Path, cwd: Path) -> str:
    result = await anyio.run_process(list(map(str, words)), cwd=cwd, check=False, stderr=subprocess.STDOUT)
    assert result.returncode == 0, result.stdout.decode()[-10_000:]
    return result.stdout.decode()


@pytest.fixture
async def generator(tmp_path: Path) -> Path:
    """A separate Python with the generator, which needs older packages than ours, and the packages of its clients."""
    environment = tmp_path / "environment"
    await run(sys.executable, "-m", "uv", "venv", "--python", sys.executable, environment, cwd=tmp_path)
    python = environment / "bin/python"
    words = [
        sys.executable,
        "-m",
        "uv",
        "pip",
        "install",
        "--python",
        str(python),
        "--require-hashes",
        "-r",
        REQUIREMENTS,
    ]
    installed = await anyio.run_process(list(map(str, words)), check=False, stderr=subprocess.STDOUT)
    if installed.returncode:
        pytest.skip(f"the generator could not be installed: {installed.stdout.decode()[-500:]}")
    return python


async def test_a_generated_python_client_is_complete_and_works(
    api: Api, document: Path, generator: Path, tmp_path: Path
) -> None:
    options = tmp_path / "options.yaml"
    options.write_text("post_hooks: []\npackage_name_override: client\n")
    output = ("--meta", "none", "--config", options, "--output-path", "client", "--fail-on-warning")
    await run(generator.with_name("openapi-python-client"), "generate", "--path", document, *output, cwd=tmp_path)
    (tmp_path / "calls.py").write_text(CALLS)
    async with served(api.context) as address:
        assert (await run(generator, "calls.py", address, cwd=tmp_path)).endswith("called\n")


@pytest.fixture
async def typescript(tmp_path: Path) -> Path:
    """A folder with the generator, the compiler and the program."""
    npm = shutil.which("npm")
    if npm is None or shutil.which("node") is None:
        pytest.skip("Node is not installed here")
    folder = tmp_path / "typescript"
    shutil.copytree(TYPESCRIPT, folder)
    words = [npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund"]
    installed = await anyio.run_process(words, cwd=folder, check=False, stderr=subprocess.STDOUT)
    if installed.returncode:
        pytest.skip(f"npm could not install the generator: {installed.stdout.decode()[-500:]}")
    return folder


async def test_a_generated_typescript_client_is_complete_and_works(api: Api, document: Path, typescript: Path) -> None:
    programs = typescript / "node_modules/.bin"
    await run(programs / "openapi-typescript", document, "--output", "schema.d.ts", cwd=typescript)
    strict = ("--strict", "--target", "es2022", "--module", "nodenext", "--types", "node")
    await run(programs / "tsc", *strict, "calls.ts", cwd=typescript)
    async with served(api.context) as address:
        assert (await run("node", "calls.js", address, cwd=typescript)).endswith("called\n")
