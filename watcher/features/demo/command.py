"""The demo from start to end: servers, shop, daemon, live view, and the final count."""

from __future__ import annotations

import json
import secrets
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from signal import SIGINT, SIGTERM
from typing import Final

import anyio
import httpx
from rich.console import Console
from rich.live import Live

from watcher.features.demo import view
from watcher.features.demo.counting import Count, DemoCounts, Seen, count, get, runs_by_state, store_writes
from watcher.features.demo.daemon import Daemon, running_daemon
from watcher.features.demo.setting import JOBS, Setting, write_setting
from watcher.features.demo.shop import Shop, connected
from watcher.shared.servers import free_port, running_postgres, running_s3

LOAD_SECONDS: Final = 10.0
SETTLE_WITHIN: Final = 600.0
TICK: Final = 0.5
LINE_EVERY: Final = 3.0


@dataclass(frozen=True, kw_only=True)
class DemoResult:
    """The counts of a demo. `--json` prints them as its last line."""

    files: Count
    rows: Count
    runs: dict[str, int]
    store_writes: dict[str, int]
    seconds: float

    @property
    def clean(self) -> bool:
        """Whether nothing was lost, repeated or failed."""
        counts = (self.files, self.rows)
        return not any(c.lost or c.repeated for c in counts) and not self.runs["failed"] and self.runs["success"] > 0


def demo_command(program: str, *, json_output: bool, keep: bool, database: str) -> int:
    """Run `watcher demo`; `program` is what a shell calls it by. Return the exit code: 0 when nothing was lost or repeated."""
    console = Console(stderr=json_output)
    try:
        result = anyio.run(_demo, program, console, keep, database)
    except KeyboardInterrupt:
        console.print("stopped; nothing that the demo started is left")
        return 130
    if json_output:
        print(json.dumps(asdict(result)))  # noqa: T201  the command's answer
    return 0 if result.clean else 1


async def _demo(program: str, console: Console, keep: bool, database: str) -> DemoResult:
    started = time.monotonic()
    async with demo_world(database) as world:
        setting = world.setting
        async with running_daemon(setting.configuration, setting.url, setting.environment) as daemon:
            result = await _played(world, daemon, console, started)
            console.print(view.final(result.files, result.rows, result.runs, result.store_writes, result.seconds))
            if keep or console.is_terminal:
                link = f"{await daemon.said('sign-in-link')}&next=%2Fdemo"
                console.print(view.invitation(setting, program, link), soft_wrap=True, markup=False, highlight=False)
                with anyio.open_signal_receiver(SIGINT, SIGTERM) as signals:
                    async for _ in signals:
                        break
            else:
                console.print(view.farewell(program), soft_wrap=True, markup=False, highlight=False)
    return result


@dataclass(frozen=True, kw_only=True)
class World:
    """Everything around the daemon: a shop that can write, and the configuration to watch it with."""

    shop: Shop
    setting: Setting


@asynccontextmanager
async def demo_world(database: str, *, load_seconds: float = LOAD_SECONDS) -> AsyncIterator[World]:
    """Start the servers, and make the empty shop and the configuration. `database` is the daemon's own: sqlite or postgresql."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="watcher-demo-")))
        address = await anyio.to_thread.run_sync(stack.enter_context, running_postgres())
        s3 = await anyio.to_thread.run_sync(stack.enter_context, running_s3())
        bucket = f"landing-{secrets.token_hex(4)}"  # moto keeps its buckets as long as the process lives
        dsn = await _new_database(address, "shop")
        own = await _new_database(address, "watcher") if database == "postgresql" else None
        setting = write_setting(
            folder,
            port=free_port(),
            endpoint=s3.endpoint,
            bucket=bucket,
            shop_dsn=dsn,
            database_url=None if own is None else own.replace("postgresql://", "postgresql+asyncpg://"),
        )
        shop = Shop(dsn, s3.client, bucket, seconds=load_seconds)
        await shop.prepare()
        yield World(shop=shop, setting=setting)


async def _new_database(address: str, name: str) -> str:
    async with connected(address) as connection:
        await connection.execute(f"CREATE DATABASE {name}")
    return address.rsplit("/", 1)[0] + f"/{name}"


async def _played(world: World, daemon: Daemon, console: Console, started: float) -> DemoResult:
    state = view.State(url=daemon.url)
    token = await daemon.said("token", "create", "--subject", "the demo", "--role", "admin")
    headers = {"Authorization": f"Bearer {token}"}
    async with httpx.AsyncClient(base_url=daemon.url, headers=headers, timeout=30) as client:
        with _screen(console, state) as show:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(_keep_showing, client, world, state, show, started)
                state.phase = "the shop is writing"
                await world.shop.write()
                await correct(client)
                state.phase = "the jobs are loading what is left"
                await settled(client, world)
                tasks.cancel_scope.cancel()
        result = await result_of(client, world, time.monotonic() - started)
    files, rows = result.files, result.rows
    DemoCounts(phase=state.phase, seconds=result.seconds, files=files, rows=rows, is_over=True).write(
        world.setting.home
    )
    return result


async def correct(client: httpx.AsyncClient) -> None:
    """Correct an entry by hand through the API, as a person does."""
    asset_id = (await get(client, "/api/v2/assets", name_pattern="orders_table"))["assets"][0]["id"]
    body = {"value": {"note": "checked by hand", "by": "a person"}}
    (await client.put(f"/api/v2/assets/{asset_id}/store/quality/checked", json=body)).raise_for_status()


async def settled(client: httpx.AsyncClient, world: World) -> None:
    """Wait until every written item was seen, and every run that follows from it has ended."""
    seen = Seen(client)
    with anyio.fail_after(SETTLE_WITHIN):
        while True:
            await seen.update()
            all_seen = world.shop.written.rows <= seen.rows.keys() and world.shop.written.files <= seen.files.keys()
            if all_seen and await _is_idle(client):
                return
            await anyio.sleep(TICK)


async def _is_idle(client: httpx.AsyncClient) -> bool:
    for dag_id in JOBS:
        queue = await get(client, f"/api/v2/dags/{dag_id}/assets/queuedEvents")
        if queue["total_entries"]:
            return False
    states = await runs_by_state(client, JOBS)  # read after the queues: an event leaves them only into a run
    return not states["queued"] and not states["running"]


async def result_of(client: httpx.AsyncClient, world: World, seconds: float) -> DemoResult:
    """Count from the first event on, after everything is idle."""
    seen = Seen(client)
    await seen.update()
    runs = await runs_by_state(client, JOBS)
    writes = await store_writes(client)
    return DemoResult(
        files=count(world.shop.written.files, seen.files),
        rows=count(world.shop.written.rows, seen.rows),
        runs={state: runs[state] for state in ("success", "failed")},
        store_writes={kind: writes[kind] for kind in ("watcher", "task", "api")},
        seconds=round(seconds, 1),
    )


async def _keep_showing(
    client: httpx.AsyncClient, world: World, state: view.State, show: Callable[[], None], started: float
) -> None:
    seen = Seen(client)
    while True:
        await seen.update()
        state.seconds = time.monotonic() - started
        state.files = count(world.shop.written.files, seen.files)
        state.rows = count(world.shop.written.rows, seen.rows)
        state.events = seen.latest
        newest = [await get(client, f"/api/v2/dags/{dag_id}/dagRuns", order_by="-id", limit=3) for dag_id in JOBS]
        state.runs = [run for page in newest for run in page["dag_runs"]]
        state.entries = [
            (asset["name"], entry)
            for asset in (await get(client, "/api/v2/assets"))["assets"]
            for entry in (await get(client, f"/api/v2/assets/{asset['id']}/store"))["asset_store"]
        ]
        show()
        DemoCounts(phase=state.phase, seconds=state.seconds, files=state.files, rows=state.rows).write(
            world.setting.home
        )
        await anyio.sleep(TICK)


@contextmanager
def _screen(console: Console, state: view.State) -> Iterator[Callable[[], None]]:
    """Show the state as a live screen on a terminal, and as a line now and then elsewhere."""
    if console.is_terminal:
        with Live(view.live(state), console=console, refresh_per_second=4) as screen:
            yield lambda: screen.update(view.live(state))
        return
    last, before = -LINE_EVERY, ""

    def show() -> None:
        nonlocal last, before
        if state.seconds - last >= LINE_EVERY and (changed := view.progress(state)) != before:
            last, before = state.seconds, changed
            console.print(view.line(state), soft_wrap=True)

    yield show
