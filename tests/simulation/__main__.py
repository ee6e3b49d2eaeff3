"""`python -m tests.simulation`: plays histories, and ends with 1 if one of them shows a fault of the product."""

from __future__ import annotations

from tests.simulation import virtual

virtual.install()  # before anything of the product is imported

import argparse  # noqa: E402
import os  # noqa: E402
import subprocess  # noqa: E402
import sys  # noqa: E402
from collections import Counter  # noqa: E402
from collections.abc import Collection, Iterable, Sequence  # noqa: E402
from dataclasses import replace  # noqa: E402
from itertools import combinations, product  # noqa: E402
from pathlib import Path  # noqa: E402
from statistics import fmean  # noqa: E402
from typing import Any, Final, TypeAlias  # noqa: E402

from tests.simulation import runner  # noqa: E402
from tests.simulation.faults import FAULTS  # noqa: E402
from tests.simulation.history import ROWS_OF_DEEDS, TRIPLES, Plan  # noqa: E402
from tests.simulation.kept import FINDS, KEPT  # noqa: E402
from tests.simulation.options import FORBIDDEN, VALUES, allowed_pairs  # noqa: E402
from tests.simulation.runner import Played  # noqa: E402

Pair: TypeAlias = tuple[Any, ...]
"""Two options, each with its value."""
NAMED: Final = 3
"""The most of what was not played that is named."""
SHOWN: Final = 12
"""The most faults of one history that are printed."""
MOST_SEEDS: Final = 500
"""The seeds within which a planted fault is found."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seeds", type=int, default=300, help="how many histories")
    parser.add_argument("--first", type=int, default=1, help="the first seed")
    at_once = range(1, runner.MOST_AT_ONCE + 1)
    parser.add_argument("--at-once", type=int, choices=at_once, metavar="N", default=2, help="how many at a time")
    parser.add_argument("--kept", action="store_true", help="play the kept seeds as well")
    parser.add_argument("--twice", action="store_true", help="play each seed twice, and compare")
    parser.add_argument(
        "--fault", action="append", choices=sorted(FAULTS), help="plant a fault, and look for a seed that finds it"
    )
    parser.add_argument("--faults", action="store_true", help="the same for each planted fault")
    parser.add_argument("--show", type=int, help="play one seed, and print all that happens")
    parser.add_argument("--shrink", type=int, help="leave out what a failing seed does not need")
    options = parser.parse_args()
    if os.environ.get("PYTHONHASHSEED") != "0":
        os.execve(  # noqa: S606  this program again
            sys.executable,
            [sys.executable, "-m", "tests.simulation", *sys.argv[1:]],
            {**os.environ, "PYTHONHASHSEED": "0"},
        )
    template = _template()
    runner.install()
    runner.warm_up(template)
    planted = options.fault[0] if options.fault else None
    if options.show is not None:
        return _show(Plan.of(options.show), template, planted)
    if options.shrink is not None:
        return _shrink(Plan.of(options.shrink), template, planted)
    if options.fault is not None or options.faults:
        names = options.fault or [*FAULTS]
        return _find_all(names, options.first, min(options.seeds, MOST_SEEDS), template, options.at_once)
    seeds = [*range(options.first, options.first + options.seeds)]
    if options.kept:
        seeds = [*dict.fromkeys([*KEPT, *seeds])]
    return _play(seeds, template, options.at_once, twice=options.twice)


def _template() -> Path:
    """Make the database that each history copies, by a program of its own: this process can do nothing else any more."""
    runner.FOLDER.mkdir(parents=True, exist_ok=True)
    program = "import sys; from pathlib import Path; from tests.databases import migrated_file; print(migrated_file(Path(sys.argv[1])))"
    path = runner.FOLDER / "template.db"
    path.unlink(missing_ok=True)
    subprocess.run([sys.executable, "-c", program, str(runner.FOLDER)], check=True, stdout=subprocess.DEVNULL)
    return path


def _play(seeds: Iterable[int], template: Path, at_once: int, *, twice: bool) -> int:
    plans = [Plan.of(seed) for seed in seeds for _ in range(1 + twice)]
    failed, cpu, counts = 0, list[float](), Counter[str]()
    pairs, deeds, digests = set[Pair](), set[tuple[str, ...]](), dict[int, int]()
    began = virtual.real_time()
    for played in runner.play_all(plans, template, at_once=at_once):
        cpu.append(played.cpu)
        counts.update(played.counts)
        pairs.update((tuple(one), tuple(two)) for one, two in played.pairs)
        deeds.update(tuple(each) for each in played.deeds)
        failed += _told(played)
        if digests.setdefault(played.seed, played.digest) != played.digest:
            print(f"seed {played.seed} played twice gives two traces")
            failed += 1
    minutes = (virtual.real_time() - began) / 60
    print(
        f"{len(plans)} histories, {failed} with a fault, {len(plans) / minutes:.0f} a minute, {counts['items']} items; "
        f"{sum(cpu) / 3600:.2f} hours of CPU ({fmean(cpu):.2f} s each, 19 of 20 within {sorted(cpu)[len(cpu) * 19 // 20]:.2f} s)"
    )
    _tell_coverage(pairs, deeds)
    print("deeds: " + ", ".join(f"{name} {number}" for name, number in sorted(counts.items()) if name != "items"))
    return 1 if failed else 0


def _tell_coverage(pairs: Collection[Pair], deeds: Collection[tuple[str, ...]]) -> None:
    """Print what has met, and what has not and why."""
    allowed = {(one, two) for one, two in allowed_pairs()}
    of_deeds = (("pairs of deeds", ROWS_OF_DEEDS), ("triples of deeds", TRIPLES))
    for name, rows in of_deeds:
        left = [", ".join(each) for each in rows if each not in deeds]
        print(f"{name}: {len(rows) - len(left)} of {len(rows)}{_of_left(left)}")
    left = [_words(each) for each in sorted(allowed - pairs, key=str)]
    print(f"pairs of options: {len(allowed & pairs)} of {len(allowed)}{_of_left(left)}")
    print(f"    refused by check, each with its remedy: {len(FORBIDDEN)}, such as {_words(next(iter(FORBIDDEN)))}")
    print(f"    follow from these, or cannot be written: {_number_of_pairs() - len(FORBIDDEN) - len(allowed)}")


def _of_left(left: Sequence[str]) -> str:
    """Return what was not played: it comes with more seeds."""
    return f"; other seeds play {'; '.join(left[:NAMED])}{' …' if len(left) > NAMED else ''}" if left else ""


def _words(pair: Pair) -> str:
    return " with ".join(f"{name}: {value}" for name, value in pair)


def _number_of_pairs() -> int:
    return sum(len(one) * len(two) for one, two in combinations(VALUES.values(), 2))


def _told(played: Played) -> bool:
    if played.faults:
        again = f"(again: make simulation ARGS='--show {played.seed}')"
        print(f"seed {played.seed} {again}:", *played.faults[:SHOWN], sep="\n    ", flush=True)
    return bool(played.faults)


def _show(plan: Plan, template: Path, fault: str | None) -> int:
    [played] = runner.play_all([plan], template, fault=fault, keep_trace=True)
    print(*played.trace, f"digest {played.digest}, {played.cpu:.2f} s of CPU", sep="\n")
    return 1 if _told(played) else 0


def _find(fault: str, seeds: Sequence[int], template: Path, at_once: int) -> int | None:
    """Return the first seed that finds a planted fault, and without it finds nothing; None: there is none among these."""
    for first in range(0, len(seeds), at_once):
        some = [Plan.of(seed) for seed in seeds[first : first + at_once]]
        for played in [*runner.play_all(some, template, at_once=at_once, fault=fault)]:
            [sound] = runner.play_all([Plan.of(played.seed)], template) if played.faults else [played]
            if played.faults and not sound.faults:
                print(f"{fault}: seed {played.seed}: {played.faults[0][:160]}", flush=True)
                return played.seed
    print(f"{fault} ({FAULTS[fault].promise}): not found", flush=True)
    return None


def _find_all(names: Iterable[str], first: int, most: int, template: Path, at_once: int) -> int:
    """Look for each planted fault, first with the seed that is known to find it."""
    found: dict[str, int] = {}
    for name in names:
        known = [FINDS[name]] if name in FINDS else []
        seeds = range(first, first + MOST_SEEDS)
        likely = [seed for seed in seeds if FAULTS[name].is_likely(Plan.of(seed))]
        seed = _find(name, [*known, *dict.fromkeys([*likely, *seeds])][:most], template, at_once)
        if seed is not None:
            found[name] = seed
    missing = [name for name in names if name not in found]
    mean = f"; the mean of the seeds that find them is {fmean(found.values()):.0f}" if found else ""
    print(f"{len(found)} of {len([*names])} planted faults found{mean}", *missing)
    return 1 if missing else 0


def _shrink(plan: Plan, template: Path, fault: str | None) -> int:
    """Leave out as many steps as possible."""
    best: frozenset[int] | None = None
    choices = sorted(product((True, False), repeat=len(plan.steps)), key=sum)
    candidates = [frozenset(place for place, kept in enumerate(choice) if not kept) for choice in choices]
    for without in candidates:
        [played] = runner.play_all([replace(plan, without=without)], template, fault=fault)
        if played.faults:
            best = without
            break
    if best is None:
        print(f"seed {plan.seed} shows no fault")
        return 0
    steps = [step for place, step in enumerate(plan.steps) if place not in best]
    print(f"seed {plan.seed} needs {steps}: {played.faults[0]}")
    return 1


if __name__ == "__main__":
    sys.exit(main())
