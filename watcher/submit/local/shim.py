"""Starts one try of a job and outlives the daemon: `python -I shim.py FOLDER`, by path, in a session of its own.

Standard library only, imports nothing of ours: it may run for days while the daemon's files are replaced. FOLDER, on a
local disk, holds all that is known of the try:

    lock           flock held by this process and, inherited, by the job's JVM: a free lock proves that both are gone,
                   whatever became of their process ids
    command.json   {"argv"}: what to start. If it is removed while the lock is held, the try is never started
    started.json   {"pid", "started_at", "boot_id"}, made with O_EXCL before anything starts: a try starts once, whoever
                   asks and however often. If a warm driver runs the try, `warm/shim.py` is its shim and adds
                   {"warm", "tag"}
    stop.json      {"grace"}: seconds between SIGTERM and SIGKILL; SIGTERM to this process begins the stop
    exit.json      {"exit_code", "signal", "stopped", "reason", "started_at", "ended_at", "cpu_seconds", "peak_mb",
                   "cpu_seconds_before"}, there in whole or not at all. Once it is there, nothing of the try but this
                   process is alive

Standard output and error are the try's log, the environment is the job's. The first process exits at once, with 0 when
the start marker is durable; its child is the shim, so that the daemon has no children to reap, before or after a crash.
"""

from __future__ import annotations

import ctypes
import fcntl
import json
import os
import resource
import signal
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

WORK = "work"
"""The job's working directory, inside FOLDER."""
DEFAULT_GRACE = 30.0
_PR_SET_CHILD_SUBREAPER = 36
_NOT_STARTED = 127
_LONGEST_WAIT, _SHORTEST_WAIT = 3600.0, 0.05


@dataclass(frozen=True, kw_only=True)
class Ended:
    """How the job's first process ended. `status` is that of waitpid, None if the process could not be started."""

    status: int | None
    stopped: bool
    reason: str = ""


def main(folder: Path) -> int:
    read_end, write_end = os.pipe()
    if os.fork():
        os.close(write_end)
        return 0 if os.read(read_end, 1) else 1
    os.close(read_end)
    os.chdir(folder / WORK)
    lock = os.open(folder / "lock", os.O_RDWR)
    if wait_for_lock(lock, folder / "started.json"):
        run_once(folder, lock, write_end)
    return 0


def wait_for_lock(lock: int, marker: Path) -> bool:
    """Take the lock, waiting for probes that hold it for a moment. Returns False if another shim has started the try."""
    while not marker.exists():
        with suppress(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        time.sleep(0.02)
    return False


def run_once(folder: Path, lock: int, write_end: int) -> None:
    """Start the job, unless it was withdrawn or was started before. Called, and returns, with the lock held."""
    try:
        argv = json.loads((folder / "command.json").read_bytes())["argv"]
    except FileNotFoundError:
        return
    become_subreaper()
    listen_for_signals()  # from here on a SIGTERM asks for a stop and has to be answered with an exit file
    started_at = now()
    try:
        write_marker(folder / "started.json", {"pid": os.getpid(), "started_at": started_at, "boot_id": boot_id()})
    except FileExistsError:
        return
    with suppress(BrokenPipeError):  # the process that waited for us may have been killed
        os.write(write_end, b"1")
    os.close(write_end)
    ended = run(argv, lock, folder / "stop.json")
    kill_descendants()
    write_exit(folder / "exit.json", ended, started_at)


def become_subreaper() -> None:
    """Adopt processes whose parent dies, in place of init, so that none of the job's processes can escape."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(
            ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER) was refused; the shim needs Linux 3.4 or later"
        )


def listen_for_signals() -> None:
    """Block SIGTERM and SIGCHLD: they stay pending until `sigtimedwait` fetches them. No handlers, no races."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # inherited as ignored, the kernel would reap our children itself
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGCHLD})


def run(argv: list[str], lock: int, stop: Path) -> Ended:
    """Start the job, and follow it to its end as `follow` does."""
    os.set_inheritable(lock, True)
    try:
        first = spawn(argv)
    except OSError as error:
        return Ended(status=None, stopped=False, reason=f"{argv[0]} could not be started: {error.strerror}")
    return follow(first, stop)


def follow(first: int, stop: Path) -> Ended:
    """Wait for the end of the job's first process, or of all its processes if SIGTERM asks us to stop."""
    status, deadline = None, None
    while True:
        statuses, some_left = reap()
        status = statuses.get(first, status)
        overdue = deadline is not None and time.monotonic() >= deadline
        if status is not None and (deadline is None or overdue or not some_left):
            return Ended(status=status, stopped=deadline is not None)
        if overdue:
            send(signal.SIGKILL, [first])
        if stop_requested(deadline):
            deadline = time.monotonic() + grace(stop)  # if asked again, the newest grace counts
            send(signal.SIGTERM, descendants())


def spawn(argv: list[str]) -> int:
    """Start the job's first process. Signals that Python ignores, or we block, would stay so in the job: they are reset."""
    return os.posix_spawn(argv[0], argv, os.environ, setsigmask=(), setsigdef=(signal.SIGPIPE, signal.SIGXFSZ))


def stop_requested(deadline: float | None) -> bool:
    """Wait until a child has died (False), the deadline is reached (False), or a SIGTERM arrives (True)."""
    left = _LONGEST_WAIT if deadline is None else max(deadline - time.monotonic(), _SHORTEST_WAIT)
    received = signal.sigtimedwait({signal.SIGTERM, signal.SIGCHLD}, left)
    return received is not None and received.si_signo == signal.SIGTERM


def reap() -> tuple[dict[int, int], bool]:
    """Reap every dead child, adopted ones too. Returns their wait statuses, and whether any child is still alive."""
    statuses: dict[int, int] = {}
    try:
        while (child := os.waitpid(-1, os.WNOHANG))[0] != 0:
            statuses[child[0]] = child[1]
    except ChildProcessError:
        return statuses, False
    return statuses, True


def grace(stop: Path) -> float:
    try:
        return float(json.loads(stop.read_bytes())["grace"])
    except (OSError, ValueError, KeyError):
        return DEFAULT_GRACE


def kill_descendants() -> None:
    """Kill and reap all descendants: a subreaper adopts the children of those it kills.

    Only children of our own are killed. Nobody else can reap them, so their process ids cannot have been reused.
    """
    with suppress(ChildProcessError):
        while True:
            send(signal.SIGKILL, children_of(parents(), os.getpid()))
            os.waitpid(-1, 0)


def descendants() -> list[int]:
    table, processes = parents(), [os.getpid()]
    for process in processes:  # the list grows meanwhile
        processes.extend(children_of(table, process))
    return processes[1:]


def children_of(table: dict[int, int], process: int) -> list[int]:
    return [child for child, parent in table.items() if parent == process]


def parents() -> dict[int, int]:
    """The parent of each process. The name in /proc/PID/stat may hold blanks and brackets, so fields are counted after it."""
    table = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            table[int(stat.parent.name)] = int(stat.read_bytes().rpartition(b")")[2].split()[1])
    return table


def send(signal_number: int, processes: list[int]) -> None:
    for process in processes:
        with suppress(ProcessLookupError):
            os.kill(process, signal_number)


def write_marker(path: Path, content: dict[str, object]) -> None:
    """Write the marker durably: a started try is known as started even after a power cut. Raises FileExistsError."""
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
        json.dump(content, file)
        file.flush()
        os.fsync(file.fileno())
    sync_folder(path.parent)


def write_exit(path: Path, ended: Ended, started_at: str, cpu_before: float = 0.0) -> None:
    """Write the exit record. `cpu_before`: CPU seconds that the processes had used before they belonged to the try."""
    unfinished = path.with_suffix(".tmp")
    code, killed_by = outcome(ended.status)
    with unfinished.open("w", encoding="utf-8") as file:
        content = {"exit_code": code, "signal": killed_by, "stopped": ended.stopped, "reason": ended.reason}
        json.dump({**content, "started_at": started_at, "ended_at": now(), **cost(cpu_before)}, file)
        file.flush()
        os.fsync(file.fileno())
    unfinished.rename(path)
    sync_folder(path.parent)


def cost(cpu_before: float) -> dict[str, float]:
    """CPU time of all reaped processes, and memory of the largest, as the kernel counts them (getrusage(2))."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_seconds = max(used.ru_utime + used.ru_stime - cpu_before, 0.0)
    shown = {"cpu_seconds": round(cpu_seconds, 3), "peak_mb": used.ru_maxrss // 1024}
    return {**shown, "cpu_seconds_before": round(cpu_before, 3)}


def outcome(status: int | None) -> tuple[int, int | None]:
    """Return exit code and signal. A death by signal n counts as exit code 128 + n, as in a shell."""
    if status is None:
        return _NOT_STARTED, None
    code = os.waitstatus_to_exitcode(status)
    return (code, None) if code >= 0 else (128 - code, -code)


def sync_folder(folder: Path) -> None:
    sync_file(folder, os.O_DIRECTORY)


def sync_file(path: Path, more: int = 0) -> None:
    descriptor = os.open(path, os.O_RDONLY | more)
    os.fsync(descriptor)
    os.close(descriptor)


def boot_id() -> str:
    """The kernel's id of this start of the machine (random(4)); each start has another."""
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()


def now() -> str:
    return datetime.now(UTC).isoformat()


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
