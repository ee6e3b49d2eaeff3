"""Keeps a driver that was started ahead, and gives it the one try it is used for: `python -I warm_shim.py FOLDER FD`.

FOLDER is laid out as a try's (`shim.py`), command.json has {"tag", "log", "event_logs"} too, and it has two named pipes. The driver
writes to `ready` when it waits, and reads from `gate`, which this process holds open: the driver runs when the folder
of its try comes out of it, and it ends when nothing can come any more. FD is a socket of which the daemon alone has the
other end:

    b"ready"        to the daemon: the driver waits
    {"folder"}      from the daemon: start the try that has this folder, whose warm.json {"folder", "tag"} names us
    b"taken"        to the daemon: its started.json is ours, and the driver runs
    b"refused"      to the daemon: not by us: it was started, or withdrawn, or the driver is gone
    b"ended"        to the daemon: the driver ended before it had a try
    end of file     the daemon is gone, or wants us no more: nothing of us is left a moment later

As for a cold start the try's lock is taken and started.json made with O_EXCL before anything of the try runs. From then
on this is the shim of that try: stop.json and exit.json are in its folder. The log, and the working folder, become the
try's; who follows the first, or stands in the other, notices nothing.
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

sys.path.append(str(Path(__file__).parents[3]))  # behind everything else: `-I` leaves our own folder out

from watcher.submit.local import shim

LONGEST_MESSAGE = 65_536


@dataclass(frozen=True, kw_only=True)
class Driver:
    """A waiting driver with what it holds on to; `first` is its first process."""

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
    one_try = wait_for_try(driver, order["tag"])
    if one_try is None:
        shim.kill_what_is_left()
        while hear(driver.control):  # until the daemon, too, has done with us
            pass
        remove_files(folder)
        return 0
    driver.control.close()
    run_try(driver, one_try, Path(order["log"]))
    return 0


def remove_files(folder: Path) -> None:
    """Of a driver that has no try: its folder, its log, and Spark's event log, which would seem to go on for ever."""
    with suppress(
        OSError, ValueError, LookupError
    ):  # cut off by a power failure; that of an earlier version may lack entries
        order = json.loads((folder / "command.json").read_bytes())
        Path(order["log"]).unlink(missing_ok=True)
        application = (folder / "application").read_text(encoding="utf-8")
        for file in Path(order["event_logs"]).iterdir():
            if application and (file.name == application or file.name.startswith(f"{application}.")):
                file.unlink(missing_ok=True)
    rmtree(folder, ignore_errors=True)


def start(folder: Path, argv: list[str], control: socket.socket) -> Driver:
    """The driver's JVM inherits the lock: a free one proves that it is gone, like us."""
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
    """The folder of the try that the driver now is of; None when nobody will have it."""
    while True:
        readable = awaited([driver.died, driver.ready, driver.control.fileno()])
        if driver.died in readable:
            tell(driver.control, b"ended")
            return None
        if driver.ready in readable:
            os.read(driver.ready, 1)
            tell(driver.control, b"ready")
        if driver.control.fileno() in readable:
            message = hear(driver.control)
            if not message:
                return None
            one_try = Path(json.loads(message)["folder"])
            if take(driver, one_try, tag):
                return one_try
            tell(driver.control, b"refused")


def awaited(descriptors: list[int], longest: float | None = None) -> list[int]:
    return select.select(descriptors, [], [], longest)[0]


def hear(control: socket.socket) -> bytes:
    """The daemon's next message; empty when it has closed its end."""
    try:
        return control.recv(LONGEST_MESSAGE)
    except ConnectionResetError:  # it had not read all of ours
        return b""


def tell(control: socket.socket, message: bytes) -> None:
    with suppress(OSError):  # the daemon may be gone
        control.send(message)


def take(driver: Driver, one_try: Path, tag: str) -> bool:
    """Make the try ours, for good: True. Whoever withdraws it, or starts it, holds its lock meanwhile."""
    lock = os.open(one_try / "lock", os.O_RDWR)
    if shim.wait_for_lock(lock, one_try / "started.json") and is_meant(driver, one_try, tag):
        whose = {"pid": os.getpid(), "started_at": shim.now(), "boot_id": shim.boot_id()}
        with suppress(OSError):
            # For the next daemon, which is to leave us alone if, and only if, the marker below is ours.
            (driver.folder / "try").unlink(missing_ok=True)
            (driver.folder / "try").symlink_to(one_try)
            shim.write_marker(one_try / "started.json", {**whose, "warm": str(driver.folder), "tag": tag})
            return True  # and the lock is held until we end
    os.close(lock)
    return False


def is_meant(driver: Driver, one_try: Path, tag: str) -> bool:
    """Not withdrawn; and there is a driver, which nobody has asked to stop."""
    try:
        named = json.loads((one_try / "warm.json").read_bytes())
    except FileNotFoundError:
        return False
    asked = signal.sigtimedwait({signal.SIGTERM}, 0)
    died = awaited([driver.died], 0)
    return bool(named["tag"] == tag) and asked is None and not died


def run_try(driver: Driver, one_try: Path, log: Path) -> None:
    started_at = shim.now()
    with suppress(OSError):  # the disk is full, say: the job must run all the same
        adopt_log(log, Path(json.loads((one_try / "arguments.json").read_bytes())["log"]))
    with suppress(OSError):
        (driver.folder / shim.WORK).rename(one_try / shim.WORK)
        (driver.folder / shim.WORK).symlink_to(one_try / shim.WORK)
    cpu_before = cpu_of_descendants()
    os.write(driver.gate, f"{one_try}\n".encode())
    ended = shim.follow(driver.first, one_try / "stop.json")
    shim.kill_what_is_left()
    shim.write_exit(one_try / "exit.json", ended, started_at, cpu_before)


def cpu_of_descendants() -> float:
    """Seconds so far, of the dead among them too (proc_pid_stat(5))."""
    ticks = 0
    for process in shim.descendants():
        with suppress(OSError):
            fields = Path(f"/proc/{process}/stat").read_bytes().rpartition(b")")[2].split()
            ticks += sum(map(int, fields[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")


def adopt_log(log: Path, of_try: Path) -> None:
    """What the daemon has written to the try's log comes first if there is nothing in ours, as there should be."""
    if of_try.exists():
        with log.open("ab") as file:
            file.write(of_try.read_bytes())
    of_try.parent.mkdir(parents=True, exist_ok=True)
    log.rename(of_try)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), int(sys.argv[2])))
