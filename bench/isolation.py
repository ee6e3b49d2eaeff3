"""Measures the cost of a process of its own for a watcher, and what the neighbours of the worst triggers notice.

Memory: a child's own pages, and those that it shares with all others. Pipe: CPU of host and child for one batch, compared
with the same trigger in the host, without a database. Neighbours: the longest pause of a witness in the host's own process
that polls ten times a second, alone and beside misbehaving triggers.
"""

from __future__ import annotations

import os
import resource
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import anyio

from triggers.base import TriggerContext
from triggers.errors import TriggerError
from watcher.triggerer.clients import ForeignTrigger
from watcher.triggerer.isolation.child_handle import ChildSettings
from watcher.triggerer.isolation.children import Children
from watcher.triggerer.isolation.fork_server import ForkServer
from watcher.triggerer.isolation.trigger import IsolatedTrigger, OwnProcesses

HOSTILE = Path(__file__).parents[1] / "tests" / "plugins"
CHILDREN = 20
SECONDS = 20.0
TICK = 0.1
PROGRAM = """
from triggers.base import BaseEventTrigger, BaseOptions, Position, TriggerBatch, TriggerEvent

class Flow(BaseEventTrigger):
    class Options(BaseOptions):
        events: int
        size: int

    async def check(self):
        return []

    def source_identity(self):
        return 1

    async def events(self, position):
        payload = {"rows": [{"id": n, "text": "x" * 80} for n in range(max(self.options.size // 100, 1))]}
        event = TriggerEvent(count=1, watermark={"from": 1, "to": 2}, payload=payload)
        batch = TriggerBatch(events=[event] * self.options.events, position=Position(watermark=1, state={}))
        while True:
            yield batch
"""


@asynccontextmanager
async def host(server: ForkServer, **settings: Any) -> AsyncIterator[OwnProcesses]:
    async with anyio.create_task_group() as tasks:
        yield OwnProcesses(Children(server, tasks, ChildSettings(**settings)))
        tasks.cancel_scope.cancel()


def trigger(path: str, options: Mapping[str, Any]) -> ForeignTrigger:
    return ForeignTrigger(path=path, options=options, connection=None, folder=Path("/"))


def memory(process: int) -> dict[str, int]:
    """Return the process's memory in kB by kind."""
    lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()[1:]
    return {name: int(rest.split()[0]) for name, _, rest in (line.partition(":") for line in lines)}


def parent_of(process: int) -> int:
    return int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])


def cpu_of(process: int) -> float:
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def measure_memory(server: ForkServer) -> None:
    async with host(server, plugins=HOSTILE) as processes, AsyncExitStack() as stack:
        identifiers = []
        for number in range(CHILDREN):
            context = TriggerContext(watcher=f"w{number}")
            opened = await stack.enter_async_context(
                processes.open(trigger("hostile.Counter", {"interval": "100ms"}), context)
            )
            batches = await stack.enter_async_context(aclosing(opened.events(None)))
            for _ in range(20):
                await anext(batches)
            identifiers.append(opened.child.process.id)
        sizes = [memory(process) for process in identifiers]
        private = [each["Private_Dirty"] + each["Private_Clean"] for each in sizes]
        print(f"{CHILDREN} isolated watchers, MB each: private {sum(private) / CHILDREN / 1000:.1f}", end=", ")
        print(f"proportional {sum(each['Pss'] for each in sizes) / CHILDREN / 1000:.1f}", end=", ")
        print(f"resident {sum(each['Rss'] for each in sizes) / CHILDREN / 1000:.1f}")
        print(f"fork server: {memory(parent_of(identifiers[0]))['Pss'] / 1000:.1f} MB proportional")


async def measure_pipe(server: ForkServer, plugins: Path) -> None:
    print(f"{'events':>8} {'bytes each':>10} {'host ms':>9} {'child ms':>9} {'MB/s':>7}   CPU for one batch")
    for events, size in ((1, 100), (100, 300), (1_000, 300), (10_000, 300), (1, 1_000_000), (15, 1_000_000)):
        async with (
            host(server, plugins=plugins) as processes,
            processes.open(
                trigger("flow.Flow", {"events": events, "size": size}), TriggerContext(watcher="w")
            ) as opened,
            aclosing(opened.events(None)) as batches,
        ):
            await anext(batches)
            rounds = max(3, min(2_000, 20_000_000 // (events * size)))
            child, ours, began = cpu_of(opened.child.process.id), time.process_time(), time.monotonic()
            for _ in range(rounds):
                await anext(batches)
            ours, child = time.process_time() - ours, cpu_of(opened.child.process.id) - child
            rate = rounds * events * size / (time.monotonic() - began) / 1e6
        print(f"{events:>8} {size:>10} {ours / rounds * 1e3:>9.2f} {child / rounds * 1e3:>9.2f} {rate:>7.1f}")


async def endure(opened: IsolatedTrigger) -> None:
    await opened.check()
    async for _ in opened.events(None):
        pass


async def measure_witness(server: ForkServer, behaviours: tuple[str, ...]) -> tuple[float, int]:
    """Return the longest pause between two polls of the witness, and how often a neighbour was started."""
    longest, starts, end = 0.0, 0, anyio.current_time() + SECONDS

    async def neighbour(processes: OwnProcesses, behaviour: str) -> None:
        nonlocal starts
        context = TriggerContext(watcher=behaviour, poll_timeout=timedelta(seconds=5))
        while True:
            starts += 1
            try:
                async with processes.open(trigger("hostile.Counter", {"behaviour": behaviour}), context) as opened:
                    await endure(opened)
            except TriggerError:
                await anyio.sleep(1)

    settings = {"plugins": HOSTILE, "memory_mb": 128, "poll_timeout": timedelta(seconds=5)}
    async with host(server, **settings) as processes, anyio.create_task_group() as tasks:
        for behaviour in behaviours:
            tasks.start_soon(neighbour, processes, behaviour)
        last = anyio.current_time()
        while last < end:
            await anyio.sleep(TICK)
            now = anyio.current_time()
            longest, last = max(longest, now - last), now
        tasks.cancel_scope.cancel()
    return longest, starts


async def main() -> None:
    with ForkServer() as server, tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "flow.py").write_text(PROGRAM)
        await measure_memory(server)
        await measure_pipe(server, Path(folder))
        mean = (
            "key_error",
            "cancelled",
            "system_exit",
            "memory_error",
            "recursion",
            "exit",
            "leak",
            "background",
            "sleep",
        )
        for name, behaviours in (
            ("alone", ()),
            ("beside those that fail", mean),
            ("beside those that burn", ("spin", "print", "ignore_signals", "swallow_cancellation", "spin_in_c")),
        ):
            longest, starts = await measure_witness(server, behaviours)
            print(f"witness every {TICK * 1e3:.0f} ms {name}: longest pause {longest * 1e3:.0f} ms, {starts} starts")
    print(f"host's peak: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000:.0f} MB resident")


if __name__ == "__main__":
    import logging

    import structlog

    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    sys.exit(anyio.run(main))
