"""One warm driver as its daemon sees it: started, handed a try, ended. All calls block; `warm/shim.py` is the other side."""

from __future__ import annotations

import hashlib
import json
import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from stat import S_ISREG
from typing import Final

from watcher.features.warm import shim as warm_shim
from watcher.host.logs import event_logs
from watcher.submit.base import Submission
from watcher.submit.local.folder import TryFolder, WarmDriverRef
from watcher.submit.local.processes import TAG_VARIABLE, kill_tagged
from watcher.submit.local.shim_submitter import Command
from watcher.submit.spark import command

WARM_PROGRAM: Final = Path(__file__).with_name("warm_program.py")
SAMPLE_FOLDER: Final = TryFolder(Path("/warm"))
"""The folder that stands for a driver's own one where two drivers are compared."""
_ANSWER_TIMEOUT: Final = 30.0
_START_TIMEOUT: Final = 60.0
_END_TIMEOUT: Final = 5.0
_CHECK_EVERY: Final = 0.05


@dataclass(kw_only=True, eq=False)
class WarmDriver:
    """A driver until it has its try. Only this process has the end `control`: when that is closed, the driver ends at once."""

    folder: TryFolder
    tag: str
    log: Path
    control: socket.socket = field(init=False)

    def start(self, order: Command) -> None:
        """Start the driver. Raises `OSError` or `subprocess.SubprocessError`, after removing whatever was started."""
        try:
            self._start(order)
        except BaseException:
            reap(self.folder, self.tag)
            raise

    def _start(self, order: Command) -> None:
        self.folder.make()
        for name in ("ready", "gate"):
            os.mkfifo(self.folder.path / name, 0o600)
        for name, content in order.files.items():
            self.folder.write_private(name, content)
        logs = {"log": str(self.log), "event_logs": str(event_logs(self.log.parents[1]))}
        started = {"argv": order.argv, "tag": self.tag, **logs}
        self.folder.write_private("command.json", json.dumps(started))
        self.log.parent.mkdir(parents=True, exist_ok=True)
        self.control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs, self.log.open("ab", buffering=0) as output:
            subprocess.run(  # noqa: S603 - our own program
                [sys.executable, "-I", warm_shim.__file__, str(self.folder.path), str(theirs.fileno())],
                env={**order.environment, TAG_VARIABLE: self.tag},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
                timeout=_START_TIMEOUT,
                check=True,
            )

    def hand_over(self, submission: Submission, folder: TryFolder, log: Path) -> bool:
        """Return whether the try is started, by this driver or by another process. If not, this driver never will start it."""
        folder.make()
        with folder.preparing():
            if folder.started():
                return True
            conf = command.try_configuration(folder.context, submission.context)
            arguments = {"args": submission.application.args, "conf": conf, "log": str(log)}
            folder.write_private(folder.context.name, json.dumps(submission.context))
            folder.write_private("arguments.json", json.dumps(arguments))
            folder.offer(WarmDriverRef(folder=self.folder.path, tag=self.tag))
            return self._ask(folder) or not self._withdraw(folder)

    def end(self) -> None:
        """Have the driver end, and wait until nothing of it is left, files included; it may have ended by itself before."""
        try:
            self.control.shutdown(socket.SHUT_WR)
            self.control.settimeout(2 * _END_TIMEOUT)
            while self.control.recv(warm_shim.LONGEST_MESSAGE):
                pass
        except OSError:  # it did not end in time, or had ended before
            pass
        finally:
            self.control.close()
        if self.folder.path.exists():
            reap(self.folder, self.tag)

    def _ask(self, folder: TryFolder) -> bool:
        try:
            self.control.settimeout(_ANSWER_TIMEOUT)
            self.control.send(json.dumps({"folder": str(folder.path)}).encode())
            while (response := self.control.recv(warm_shim.LONGEST_MESSAGE)) == b"ready":
                pass
        except OSError:
            return False
        return response == b"taken"

    def _withdraw(self, folder: TryFolder) -> bool:
        """Withdraw the offer; returns False if the try is started. A shim that does not answer is killed before the check."""
        for _ in range(2):
            with folder.unlocked() as free:
                if folder.started():
                    return False
                if free:
                    folder.withdraw()
                    return True
            kill_tagged(self.tag)
        return not folder.started()


def reap(folder: TryFolder, tag: str) -> None:
    """Kill what is left of a driver that has no try, and remove its files."""
    kill_tagged(tag)
    warm_shim.remove_files(folder.path)


def fingerprint(order: Command, connections: object, runtime: Mapping[str, str]) -> str:
    """Return a digest of all that is fixed when a JVM starts. Drivers with equal ones can replace each other.

    `order` is that of a driver in `SAMPLE_FOLDER`. The digest includes size and time of each file that a word of it names.
    """
    texts = [*order.argv, *order.environment.values(), *order.files.values()]
    files = {word: _stamp(word) for text in [*texts, *runtime.values()] for word in re.split(r"[,:;=#\s]+", text)}
    known = {word: stamp for word, stamp in files.items() if stamp is not None}
    everything = [order.argv, dict(order.environment), dict(order.files), connections, dict(runtime), known]
    return hashlib.sha256(json.dumps(everything, sort_keys=True).encode()).hexdigest()


def _stamp(word: str) -> tuple[int, int] | None:
    """Time and size of a file; None for a word that names no file. Folders do not count: their content may change."""
    if not word.startswith("/"):
        return None
    try:
        status = Path(word).stat()
    except (OSError, ValueError):
        return None
    return (status.st_mtime_ns, status.st_size) if S_ISREG(status.st_mode) else None


def reap_left_behind(home: Path) -> int:
    """Reap drivers in `home` whose daemon is gone and that have no try. Returns how many.

    A driver that is just being given a try is left alone.
    """
    reaped = 0
    for path in sorted((home / "warm").glob("*")):
        deadline = time.monotonic() + _END_TIMEOUT
        while _is_alive(path) and not _has_try(path) and time.monotonic() < deadline:
            time.sleep(_CHECK_EVERY)
        if not _has_try(path):
            reap(TryFolder(path), f"warm-{path.name}")
            reaped += 1
    return reaped


def _is_alive(path: Path) -> bool:
    with TryFolder(path).unlocked() as free:
        return not free


def _has_try(path: Path) -> bool:
    """Whether the driver has a try. The shim leaves a link to its folder before the try's start marker is made."""
    try:
        try_folder = TryFolder((path / "try").readlink())
    except OSError:
        return False
    warm = try_folder.warm()
    return warm is not None and warm.folder == path and try_folder.exit_record() is None
