"""Plays many histories, each in a process of its own that is forked from one that has everything imported and warm."""

from __future__ import annotations

import faulthandler
import fcntl
import gc
import json
import os
import resource
import shutil
import signal
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from tests.simulation import cluster, daemons, sources, sqlite, virtual
from tests.simulation.faults import FAULTS
from tests.simulation.history import Outcome, Plan, played

LONGEST: Final = 60
"""Seconds of CPU after which a history is ended: something in it never ends. Real time says nothing on a busy machine."""
MOST_AT_ONCE: Final = 10
"""The most histories that go on at one time: the names of their folders end with one digit."""
WARM_UP: Final = (4, 9, 23)
"""The seeds that are played first, so that statements and models are compiled once."""

_cpu: Final = time.process_time
_real: Final = time.sleep
_MEMORY: Final = Path("/dev/shm" if Path("/dev/shm").is_dir() else "/tmp")  # noqa: S108


def _folder() -> Path:
    """Return a folder of this program alone, with a name as long as that of any other: files are named by their paths."""
    for number in range(10):
        folder = _MEMORY / f"asset-watcher-simulation-{number}"
        folder.mkdir(exist_ok=True)
        descriptor = os.open(folder / "lock", os.O_RDWR | os.O_CREAT)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
        else:
            return folder  # for as long as this process lives, or one that it has forked
    raise RuntimeError("ten simulations run on this machine; end one")


FOLDER: Final = _folder()


@dataclass(frozen=True, kw_only=True)
class Played:
    """A history as the process that played it has told it."""

    seed: int
    faults: list[str]
    digest: int
    cpu: float
    counts: dict[str, int] = field(default_factory=dict)
    pairs: list[Any] = field(default_factory=list)
    deeds: list[Any] = field(default_factory=list)
    trace: list[str] = field(default_factory=list)


def install() -> None:
    """Make this process one that plays histories. It is good for nothing else from then on."""
    sqlite.install()
    daemons.install()
    sources.install()
    os.fsync = lambda _descriptor: None
    gc.disable()
    assert cluster.StandIn is not None


def warm_up(template: Path) -> None:
    for seed in WARM_UP:
        _play(Plan.of(seed), template, None, keep_trace=False, place="warm")
    gc.collect()
    gc.freeze()


def _play(plan: Plan, template: Path, fault: str | None, *, keep_trace: bool, place: str) -> Played:
    root = FOLDER / place
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir(parents=True)
    if fault is not None:
        FAULTS[fault].plant()
    began = _cpu()
    virtual.reseed(plan.seed)
    outcome = played(plan, root, template)
    shutil.rmtree(root, ignore_errors=True)
    return _told(outcome, _cpu() - began, keep_trace=keep_trace)


def _told(outcome: Outcome, cpu: float, *, keep_trace: bool) -> Played:
    return Played(
        seed=outcome.seed,
        faults=[*outcome.faults],
        digest=outcome.digest,
        cpu=cpu,
        counts=dict(outcome.counts),
        pairs=[*outcome.pairs],
        deeds=[*outcome.deeds],
        trace=[*outcome.trace] if keep_trace else [],
    )


def play_all(
    plans: Iterable[Plan], template: Path, *, at_once: int = 2, fault: str | None = None, keep_trace: bool = False
) -> Iterator[Played]:
    """Play each plan in a process of its own, so many at a time, and yield what each has told, in the order of their ends.

    A seed is always played in the same folder, because files are named by their paths. Each of those that go on at one time has
    a folder of its own, with a name as long as that of any other.
    """
    running: dict[int, tuple[Plan, int]] = {}
    free, waiting = [*range(at_once)], iter(plans)
    queues: dict[int, list[Plan]] = {slot: [] for slot in free}
    try:
        while True:
            for slot in [*free]:
                while not queues[slot] and (plan := next(waiting, None)) is not None:
                    queues[plan.seed % at_once].append(plan)
                if queues[slot]:
                    free.remove(slot)
                    plan = queues[slot].pop(0)
                    running[_forked(plan, template, fault, keep_trace=keep_trace, slot=slot)] = plan, slot
            if not running:
                return
            pid, status = os.wait()
            if pid not in running:
                continue
            plan, slot = running.pop(pid)
            free.append(slot)
            yield _read(plan, slot, status)
    finally:
        for pid in running:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def _forked(plan: Plan, template: Path, fault: str | None, *, keep_trace: bool, slot: int) -> int:
    pid = os.fork()
    if pid:
        return pid
    status = 1
    try:
        faulthandler.register(signal.SIGXCPU)
        resource.setrlimit(resource.RLIMIT_CPU, (LONGEST, LONGEST + 1))  # it tells where it is, and ends a second later
        told = _play(plan, template, fault, keep_trace=keep_trace, place=f"history{slot}")
        _answer(slot).write_text(json.dumps(asdict(told)))
        status = 0
    except BaseException as error:  # noqa: BLE001  it is told, and the process ends here in any case
        told = Played(seed=plan.seed, faults=[f"{type(error).__name__}: {error}"], digest=0, cpu=0)
        _answer(slot).write_text(json.dumps(asdict(told)))
        status = 0
    finally:
        sys.stdout.flush()
        os._exit(status)


def _answer(slot: int) -> Path:
    FOLDER.mkdir(parents=True, exist_ok=True)
    return FOLDER / f"{slot}.json"


def _read(plan: Plan, slot: int, status: int) -> Played:
    answer = _answer(slot)
    if status or not answer.exists():
        return Played(seed=plan.seed, faults=[f"the history did not end by itself (status {status})"], digest=0, cpu=0)
    told = Played(**json.loads(answer.read_text()))
    answer.unlink()
    return told
