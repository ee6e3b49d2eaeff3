"""The page of the first watchers, typed literally: its file, its commands, a bucket and a table, in a shell without `.venv` on the path."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from time import monotonic, sleep

import psycopg
import pytest

from tests.e2e.watching import processes_that_mention
from tests.effort import PATIENCE
from tests.pages import ROOT, a_project, not_activated, run_block, shell_blocks
from tests.servers import fresh_bucket, running_s3
from watcher.shared.servers import free_port, running_postgres

pytestmark = [pytest.mark.spark, pytest.mark.service, pytest.mark.slow]
PAGE = "docs/first-watchers.md"
YAML = re.compile(r"^```yaml\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@contextmanager
def typed(command: str, folder: Path, environment: Mapping[str, str]) -> Iterator[Path]:
    """Type a command that goes on until Ctrl-C; yield the file of its output."""
    output = folder / "output"
    with output.open("wb") as file:
        shell = subprocess.Popen(
            ["bash", "-c", f"exec {command}"],
            cwd=folder,
            env={**os.environ, **environment},
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        yield output
    finally:
        shell.send_signal(signal.SIGINT)
        assert shell.wait(PATIENCE) == 0, output.read_text()


def test_the_page_of_the_first_watchers_works_as_it_is_written(tmp_path: Path) -> None:
    project = a_project(tmp_path)
    [sample] = YAML.findall((ROOT / PAGE).read_text(encoding="utf-8"))
    first, second = shell_blocks(PAGE)
    with running_s3() as server, fresh_bucket(server) as bucket, running_postgres() as address:
        with psycopg.connect(address, autocommit=True) as connection:
            connection.execute("CREATE DATABASE shop")
        dsn = address.rsplit("/", 1)[0] + "/shop"
        with psycopg.connect(dsn, autocommit=True) as connection:
            connection.execute("CREATE TABLE customers (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, name text)")
            connection.execute("INSERT INTO customers (name) VALUES ('ann'), ('bob')")
        server.client.put_object(Bucket=bucket, Key="orders/monday.json", Body=b'{"id": 1}\n{"id": 2}\n')
        own = sample.replace("my-bucket", bucket).replace(
            "    region: eu-central-1\n", f"    region: {server.region}\n    endpoint_url: {server.endpoint}\n"
        )
        (project / "watchers.yaml").write_text(own)
        keys = f"LAKE_KEY={server.access_key} LAKE_SECRET={server.secret_key}"
        block = first.replace("LAKE_KEY=… LAKE_SECRET=…", keys)
        block = re.sub("SHOP_DSN=.*", f"SHOP_DSN={dsn}", block)
        export, check, run = re.fullmatch(r"((?:export .*\n)+)(.*check.*\n)(.*run.*\n)", block).groups()  # type: ignore[union-attr]
        environment = not_activated(WATCHER_SETTINGS__API__PORT=str(free_port()))
        said = run_block(export + check, project, environment)
        assert "load_people" in said
        secrets = dict(re.findall(r"(\w+)=(\S+)", export))
        with typed(run.split("#")[0], project, {**environment, **secrets}) as output:
            until = monotonic() + PATIENCE
            while not all([*(project / "tables" / name).glob("run=*/*.parquet")] for name in ("orders", "people")):
                assert monotonic() < until, output.read_text()
                sleep(0.5)
            said = run_block(second, project, {**environment, **secrets})
        assert {"load_orders", "load_people", "http://127.0.0.1"} <= set(re.findall(r"load_\w+|http://127.0.0.1", said))
        assert "retry_scheduled" not in output.read_text()
    assert processes_that_mention(project) == []
