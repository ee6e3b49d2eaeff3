"""One warm driver as its daemon sees it: started, handed a try, ended. All calls block; `warm_shim.py` is the other side."""

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

from watcher.host.logs import event_logs
from watcher.submit.base import Submission
from watcher.submit.local.folder import TryFolder, Warm
from watcher.submit.local.processes import TAG_VARIABLE, kill_tagged
from watcher.submit.shimmed import Command
from watcher.submit.spark import command
from watcher.submit.warm import shim as warm_shim

WARM_PROGRAM: Final = Path(__file__).with_name("warm_program.py")
SOMEWHERE: Final = TryFolder(Path("/warm"))
"""The folder that stands in for a driver's own where two of them are compared."""
_ANSWER_WITHIN: Final = 30.0
_START_WITHIN: Final = 60.0
_ENDS_WITHIN: Final = 5.0
_LOOK_EVERY: Final = 0.05


@dataclass(kw_only=True, eq=False)
class WarmDriver:
    """`control` is ours alone: when it is closed, whoever closed it, nothing is left of the driver a moment later."""

    folder: TryFolder
    tag: str
    log: Path
    control: socket.socket = field(init=False)

    def start(self, order: Command) -> None:
        """Raises `OSError`, `subprocess.SubprocessError`; nothing is left then."""
        try:
            self._start(order)
        except BaseException:
            bury(self.folder, self.tag)
            raise

    def _start(self, order: Command) -> None:
        self.folder.make()
        for name in ("ready", "gate"):
            os.mkfifo(self.folder.path / name, 0o600)
        for name, content in order.files.items():
            self.folder.write_private(name, content)
        logs = {"log": str(self.log), "event_logs": str(event_logs(self.log.parents[1]))}
        words = {"argv": order.argv, "tag": self.tag, **logs}
        self.folder.write_private("command.json", json.dumps(words))
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
                timeout=_START_WITHIN,
                check=True,
            )

    def hand_over(self, submission: Submission, folder: TryFolder, log: Path) -> bool:
        """Whether the try is started, by this driver or by somebody else; if not it certainly never will be by this one."""
        folder.make()
        with folder.preparing():
            if folder.started():
                return True
            conf = command.of_try(folder.context, submission.context)
            arguments = {"args": submission.application.args, "conf": conf, "log": str(log)}
            folder.write_private(folder.context.name, json.dumps(submission.context))
            folder.write_private("arguments.json", json.dumps(arguments))
            folder.offer(Warm(folder=self.folder.path, tag=self.tag))
            return self._ask(folder) or not self._withdraw(folder)

    def end(self) -> None:
        """Have it end, and wait until nothing of it is left, files included; also of one that ended by itself."""
        try:
            self.control.shutdown(socket.SHUT_WR)
            self.control.settimeout(2 * _ENDS_WITHIN)
            while self.control.recv(warm_shim.LONGEST_MESSAGE):
                pass
        except OSError:  # it did not end in time, or it had before
            pass
        finally:
            self.control.close()
        if self.folder.path.exists():
            bury(self.folder, self.tag)

    def _ask(self, folder: TryFolder) -> bool:
        try:
            self.control.settimeout(_ANSWER_WITHIN)
            self.control.send(json.dumps({"folder": str(folder.path)}).encode())
            while (answer := self.control.recv(warm_shim.LONGEST_MESSAGE)) == b"ready":
                pass
        except OSError:
            return False
        return answer == b"taken"

    def _withdraw(self, folder: TryFolder) -> bool:
        """Whether the try is not started, and then it is not by us. A shim that does not answer is killed before we look."""
        for _ in range(2):
            with folder.unlocked() as free:
                if folder.started():
                    return False
                if free:
                    folder.withdraw()
                    return True
            kill_tagged(self.tag)
        return not folder.started()


def bury(folder: TryFolder, tag: str) -> None:
    """Kill what is left of a driver that has no try, and remove its files."""
    kill_tagged(tag)
    warm_shim.remove_files(folder.path)


def fingerprint(order: Command, connections: object, runtime: Mapping[str, str]) -> str:
    """The same for two drivers in place of which the other could be used: everything that is fixed when a JVM starts.

    `order` is that of a driver in `SOMEWHERE`. Of every file that its words name size and time of change count.
    """
    texts = [*order.argv, *order.environment.values(), *order.files.values()]
    files = {word: _stamp(word) for text in [*texts, *runtime.values()] for word in re.split(r"[,:;=#\s]+", text)}
    known = {word: stamp for word, stamp in files.items() if stamp is not None}
    everything = [order.argv, dict(order.environment), dict(order.files), connections, dict(runtime), known]
    return hashlib.sha256(json.dumps(everything, sort_keys=True).encode()).hexdigest()


def _stamp(word: str) -> tuple[int, int] | None:
    """None for what names no file; a folder's content may change as it likes."""
    if not word.startswith("/"):
        return None
    try:
        status = Path(word).stat()
    except (OSError, ValueError):
        return None
    return (status.st_mtime_ns, status.st_size) if S_ISREG(status.st_mode) else None


def bury_left_behind(home: Path) -> int:
    """Those in `home` whose daemon is gone and that have no try; returns how many. One that is being given a try is let."""
    buried = 0
    for path in sorted((home / "warm").glob("*")):
        deadline = time.monotonic() + _ENDS_WITHIN
        while _lives(path) and not _has_try(path) and time.monotonic() < deadline:
            time.sleep(_LOOK_EVERY)
        if not _has_try(path):
            bury(TryFolder(path), f"warm-{path.name}")
            buried += 1
    return buried


def _lives(path: Path) -> bool:
    with TryFolder(path).unlocked() as free:
        return not free


def _has_try(path: Path) -> bool:
    """The shim leaves a link to it before the try's start marker is made."""
    try:
        one_try = TryFolder((path / "try").readlink())
    except OSError:
        return False
    warm = one_try.warm()
    return warm is not None and warm.folder == path and one_try.exit() is None
