"""Compares an idle poll's cost with that of another checkout, such as 0.1.0, each with its own Python and benches.

For PostgreSQL it shows the milliseconds of `bench/postgres.py` at 100,000 rows, for S3 the CPU seconds of `bench/s3_poll.py`: the
median of some rounds of each, and the ratio.

    python bench/before.py FOLDER [--rounds 5] [--objects 200000]
"""

from __future__ import annotations

import argparse
import re
import subprocess
from collections import defaultdict
from pathlib import Path
from statistics import median

HERE = Path(__file__).parents[1]
ROWS = 100_000
POLLS = """
import sys
sys.path[:0] = ["bench", "."]
import anyio, postgres, s3_listing, s3_poll, structlog
from watcher.shared.servers import running_postgres
structlog.configure(wrapper_class=structlog.make_filtering_bound_logger("warning"))
postgres.FULL_POLLS = 1
rows, objects = map(int, sys.argv[1:])
with running_postgres() as address:
    anyio.run(postgres.one_table, address, rows)
with s3_poll.other_process(s3_listing.serve, objects) as port:
    for mode in ("window", "strict"):
        anyio.run(s3_poll.idle_poll, f"http://127.0.0.1:{port}", mode, "**/*.json")
"""
TITLE = re.compile(r"rows, (.*), median")
TABLE = re.compile(r"^  (mode \w+) +([0-9.]+) ms", re.MULTILINE)
BUCKET = re.compile(r"^  (window|strict) .* ([0-9.]+) CPU s", re.MULTILINE)


def idle_polls(folder: Path, objects: int) -> dict[str, float]:
    command = [str(folder / ".venv/bin/python"), "-c", POLLS, str(ROWS), str(objects)]
    output = subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout
    _, *sections = TITLE.split(output)
    costs = {f"S3 {mode}, CPU s": float(cost) for mode, cost in BUCKET.findall(output)}
    for title, lines in zip(sections[::2], sections[1::2], strict=True):
        if title.startswith("idle poll"):
            costs |= {f"{mode}, {title}, ms": float(cost) for mode, cost in TABLE.findall(lines)}
    return costs


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--objects", type=int, default=200_000)
    arguments, _ = parser.parse_known_args()
    if arguments.folder is None:
        print("nothing to compare with: name the folder of another checkout that has its .venv")
        return
    before, objects = arguments.folder.absolute(), arguments.objects
    costs: dict[tuple[str, Path], list[float]] = defaultdict(list)
    for _ in range(arguments.rounds):
        for folder in (before, HERE):
            for name, cost in idle_polls(folder, objects).items():
                costs[name, folder].append(cost)
    print(f"{'':58}   before      now   ratio")
    for name in dict.fromkeys(name for name, _ in costs):
        then, now = median(costs[name, before]), median(costs[name, HERE])
        print(f"{name:58}{then:9.3f}{now:9.3f}{now / then:8.2f}")


if __name__ == "__main__":
    main()
