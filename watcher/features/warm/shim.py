"""Keeps a driver that was started ahead, and gives it the one try it is used for: `python -I warm/shim.py FOLDER FD`.

FOLDER is laid out as a try's (`local/shim.py`). Its command.json has {"tag", "log", "event_logs"} too, and there are two
named pipes. The driver writes to `ready` when it waits, and reads from `gate`, which this process holds open: the driver
runs when it reads the folder of its try, and ends at the end of file. FD is a socket; only the daemon has the other end:

    b"ready"        to the daemon: the driver waits
    {"folder"}      from the daemon: start the try that has this folder, whose warm.json {"folder", "tag"} names us
    b"taken"        to the daemon: its started.json is ours, and the driver runs
    b"refused"      to the daemon: we do not start it: it was started, or withdrawn, or the driver is gone
    b"ended"        to the daemon: the driver ended before it had a try
    end of file     the daemon is gone, or does not need us any more: this process and the driver end at once

As in a cold start, the try's lock is taken, and started.json is made with O_EXCL, before anything of the try runs. From
then on this is the shim of that try: stop.json and exit.json are in its folder. The log and the working folder become
the try's, unnoticed by processes that have the log open or work in the folder.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from shutil import rmtree

sys.path.append(str(Path(__file__).parents[3]))  # after everything else; `-I` omits our own folder

from watcher.submit.local import shim

LONGEST_MESSAGE = 65_536


@dataclass(frozen=True, kw_only=True)
class Driver:
    """A waiting driver and its descriptors; `first` is its first process."""

    folder: Path
    lock: int
    first: int
    died: int
    ready: int
    gate: int
    control: socket.socket


def main(folder: Path, descriptor: int) -> int:
    os.set_inheritable(descriptor, False)
    if os.fork():
        return 0
    order = json.loads((folder / "command.json").read_bytes())
    driver = start(folder, order["argv"], socket.socket(fileno=descriptor))
    try_folder = wait_for_try(driver, order["tag"])
    if try_folder is None:
        shim.kill_descendants()
        while receive(driver.control):  # until the daemon has closed its end, too
            pass
        remove_files(folder)
        return 0
    driver.control.close()
    run_try(driver, try_folder, Path(order["log"]))
    return 0


def remove_files(folder: Path) -> None:
    """Remove the files of a driver that has no try: folder, log, and Spark's event log, which would seem to run for ever."""
    # The file may be cut off by a power failure, or be an earlier version's, which has fewer keys.
    with suppress(OSError, ValueError, LookupError):
        order = json.loads((folder / "command.json").read_bytes())
        Path(order["log"]).unlink(missing_ok=True)
        application = (folder / "application").read_text(encoding="utf-8")
        for file in Path(order["event_logs"]).iterdir():
            if application and (file.name == application or file.name.startswith(f"{application}.")):
                file.unlink(missing_ok=True)
    rmtree(folder, ignore_errors=True)


def start(folder: Path, argv: list[str], control: socket.socket) -> Driver:
    """Start the driver. Its JVM inherits the lock: a free lock proves that the JVM is gone, like this process."""
    os.chdir(folder / shim.WORK)
    lock = os.open(folder / "lock", os.O_RDWR)
    shim.wait_for_lock(lock, folder / "started.json")
    os.set_inheritable(lock, True)
    shim.become_subreaper()
    shim.listen_for_signals()
    ready, gate = os.open(folder / "ready", os.O_RDWR), os.open(folder / "gate", os.O_RDWR)
    first = shim.spawn(argv)
    died = os.pidfd_open(first)
    return Driver(folder=folder, lock=lock, first=first, died=died, ready=ready, gate=gate, control=control)


def wait_for_try(driver: Driver, tag: str) -> Path | None:
    """Wait, and return the folder of the try that the driver now belongs to; None if it will not get one."""
    while True:
        readable = wait_readable([driver.died, driver.ready, driver.control.fileno()])
        if driver.died in readable:
            send(driver.control, b"ended")
            return None
        if driver.ready in readable:
            os.read(driver.ready, 1)
            send(driver.control, b"ready")
        if driver.control.fileno() in readable:
            message = receive(driver.control)
            if not message:
                return None
            try_folder = Path(json.loads(message)["folder"])
            if take(driver, try_folder, tag):
                return try_folder
            send(driver.control, b"refused")


def wait_readable(descriptors: list[int], longest: float | None = None) -> list[int]:
    return select.select(descriptors, [], [], longest)[0]


def receive(control: socket.socket) -> bytes:
    """Return the daemon's next message; empty after the daemon has closed its end."""
    try:
        return control.recv(LONGEST_MESSAGE)
    except ConnectionResetError:  # it closed without having read all of ours
        return b""


def send(control: socket.socket, message: bytes) -> None:
    with suppress(OSError):  # the daemon may be gone
        control.send(message)


def take(driver: Driver, try_folder: Path, tag: str) -> bool:
    """Start the try as its shim; returns False if that is too late. Whoever withdraws or starts a try holds its lock."""
    lock = os.open(try_folder / "lock", os.O_RDWR)
    if shim.wait_for_lock(lock, try_folder / "started.json") and may_take(driver, try_folder, tag):
        owner = {"pid": os.getpid(), "started_at": shim.now(), "boot_id": shim.boot_id()}
        with suppress(OSError):
            # For the next daemon: it must leave us alone if, and only if, the marker below is ours.
            (driver.folder / "try").unlink(missing_ok=True)
            (driver.folder / "try").symlink_to(try_folder)
            shim.write_marker(try_folder / "started.json", {**owner, "warm": str(driver.folder), "tag": tag})
            return True  # the lock stays held until this process ends
    os.close(lock)
    return False


def may_take(driver: Driver, try_folder: Path, tag: str) -> bool:
    """Whether the try is offered to this driver and not withdrawn, and the driver is alive and not asked to stop."""
    try:
        offer = json.loads((try_folder / "warm.json").read_bytes())
    except FileNotFoundError:
        return False
    stop_requested = signal.sigtimedwait({signal.SIGTERM}, 0)
    died = wait_readable([driver.died], 0)
    return bool(offer["tag"] == tag) and stop_requested is None and not died


def run_try(driver: Driver, try_folder: Path, log: Path) -> None:
    started_at = shim.now()
    with suppress(OSError):  # for example a full disk: the job must run all the same
        adopt_log(log, Path(json.loads((try_folder / "arguments.json").read_bytes())["log"]))
    with suppress(OSError):
        (driver.folder / shim.WORK).rename(try_folder / shim.WORK)
        (driver.folder / shim.WORK).symlink_to(try_folder / shim.WORK)
    cpu_before = cpu_of_descendants()
    os.write(driver.gate, f"{try_folder}\n".encode())
    ended = shim.follow(driver.first, try_folder / "stop.json")
    shim.kill_descendants()
    shim.write_exit(try_folder / "exit.json", ended, started_at, cpu_before)


def cpu_of_descendants() -> float:
    """CPU seconds of all descendants so far, including dead ones (proc_pid_stat(5))."""
    ticks = 0
    for process in shim.descendants():
        with suppress(OSError):
            fields = Path(f"/proc/{process}/stat").read_bytes().rpartition(b")")[2].split()
            ticks += sum(map(int, fields[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")


def adopt_log(log: Path, try_log: Path) -> None:
    """Make the driver's log the try's. It gets what the daemon has already written to the try's log, normally as its beginning."""
    if try_log.exists():
        with log.open("ab") as file:
            file.write(try_log.read_bytes())
    try_log.parent.mkdir(parents=True, exist_ok=True)
    log.rename(try_log)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), int(sys.argv[2])))
