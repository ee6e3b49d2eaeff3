"""A soak: one daemon under steady load for a quarter of an hour. Prints the resources it uses, and fails when they grow.

`make soak`, or `python -m tests.torture.soak --minutes 5 --database sqlite`. It prints the daemon's resident memory,
its descriptors and threads, and the memory of its child processes (the fork server, a trigger).
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from tests.databases import migrate
from tests.effort import SEED
from tests.servers import running_postgres
from tests.service.isolation.hosting import descendants
from tests.torture.world import World

SAMPLES = 15
WARM_UP = 5
"""The number of first samples that do not count: caches fill, connections open."""
MEMORY, HANDLES = 1.03, 5
"""The growth allowed from the first half of the samples to the second: a factor of memory; descriptors or threads."""
FILES = 2_000
"""The number of files in the folder at a time. What a watcher remembers of them is part of the load."""


@dataclass(frozen=True, kw_only=True)
class Sample:
    resident: int
    """The daemon's resident memory in MB; `below` is that of its child processes."""
    descriptors: int
    threads: int
    below: int


def sample(process: int) -> Sample:
    return Sample(
        resident=status(process, "VmRSS") // 1000,
        descriptors=len([*Path(f"/proc/{process}/fd").iterdir()]),
        threads=status(process, "Threads"),
        below=sum(status(child, "VmRSS") for child in descendants(process)) // 1000,
    )


def status(process: int, name: str) -> int:
    """Return a number from the process's status in /proc; memory is in kB."""
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{name}:"))


def growth(samples: Sequence[Sample]) -> list[str]:
    """Return what grows steadily. The medians of both halves after the warm-up are compared, so a single peak does not count."""
    counted = samples[WARM_UP:]
    halves = counted[: len(counted) // 2], counted[len(counted) // 2 :]
    lines = []
    for name, allowed in (("resident", MEMORY), ("below", MEMORY), ("descriptors", 1.0), ("threads", 1.0)):
        earlier, later = (median(getattr(each, name) for each in half) for half in halves)
        if later > earlier * allowed + (0 if allowed > 1 else HANDLES):
            lines.append(f"{name} grew from {earlier:g} to {later:g}")
    return lines


def soak(world: World, seconds: float) -> Iterator[Sample]:
    world.start()
    world.largest_gap()
    process = world.daemons.running[""].pid
    began = time.monotonic()
    with world.sources.load(SEED, keep=FILES):
        for number in range(1, SAMPLES + 1):
            time.sleep(max(0.0, began + number * seconds / SAMPLES - time.monotonic()))
            yield sample(process)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=15)
    parser.add_argument("--database", choices=["postgresql", "sqlite"], default="postgresql")
    arguments = parser.parse_args()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        server = stack.enter_context(running_postgres())
        shop = stack.enter_context(server.database())
        metadata = None
        if arguments.database == "postgresql":
            metadata = stack.enter_context(server.database()).sqlalchemy_url
            migrate(metadata)
        world = stack.enter_context(World(folder, shop.dsn, metadata))
        print(
            f"{'minute':>6} {'MB':>5} {'descriptors':>11} {'threads':>7} {'MB below':>8}   {arguments.database}, seed {SEED}"
        )
        samples = []
        for number, each in enumerate(soak(world, arguments.minutes * 60), start=1):
            samples.append(each)
            minute = number * arguments.minutes / SAMPLES
            print(
                f"{minute:>6.1f} {each.resident:>5} {each.descriptors:>11} {each.threads:>7} {each.below:>8}",
                flush=True,
            )
        tally = world.write_and_settle()
        print(f"{tally}; the witness's largest gap: {world.largest_gap():.1f} s")
        problems = growth(samples)
        problems += [f"{each} is not 0" for each in ("lost", "repeated") if getattr(tally, each)]
        problems += ["SIGTERM did not end it as it should"] if world.daemons.stop() else []
    print("\n".join(problems) or "flat")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
