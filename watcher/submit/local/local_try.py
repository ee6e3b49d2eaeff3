"""One try on this machine after its start: found again, polled, stopped, and cleaned up. All calls block."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from shutil import rmtree
from signal import SIGTERM
from typing import Final

from watcher.submit.base import Attachment, Status
from watcher.submit.local.exit_reason import explain_exit
from watcher.submit.local.folder import TryFolder
from watcher.submit.local.processes import kill_tagged, signal_tagged

_LOST: Final = "the job was lost: its processes are gone without an exit code, killed from outside"


@dataclass(frozen=True, kw_only=True)
class LocalTry:
    """A try's folder, and the tag in the environment of its processes."""

    folder: TryFolder
    tag: str
    end_applications: Callable[[TryFolder, str], None]
    """Ends what the try left outside this machine, given its folder and tag. It may raise: then it is called again."""

    def missing(self, *, has_handle: bool) -> Attachment | None:
        """Return why there is nothing to attach to; None if there is something."""
        with self.folder.unlocked() as free:
            if not free or self.folder.exit_record() is not None:
                return None
            if not has_handle and not self.folder.started():
                # A shim of the daemon that crashed may still be under way: ABSENT has to stay true.
                self.folder.withdraw()
                return Attachment.ABSENT
            self._kill_orphans()
        return Attachment.RESTARTED if self.folder.machine_restarted() else Attachment.LOST

    def status(self, log: Path) -> Status:
        """Return its state. What is left of a lost try is killed."""
        with self.folder.unlocked() as free:
            if not free:
                return Status(phase="running" if self.folder.started() else "starting")
            record = self.folder.exit_record()
            if record is None:
                self._kill_orphans()
                return Status(phase="exited", reason=_LOST, restarted=self.folder.machine_restarted())
        if record.stopped or record.signal is not None:
            self.end_applications(self.folder, self.tag)
        self._tidy()
        return Status(
            phase="exited",
            exit_code=record.exit_code,
            stopped=record.stopped,
            reason=explain_exit(record, log),
            cpu_seconds=record.cpu_seconds,
            peak_memory_mb=record.peak_mb,
        )

    def request_stop(self, grace: float) -> bool:
        """Send SIGTERM to the shim, which passes it on and kills after the grace; without a shim to the job itself: False."""
        with self.folder.unlocked() as free:
            if free:
                self.folder.withdraw()
                return False
        self.folder.request_stop(grace)
        shim_process = self.folder.shim_process()
        if shim_process is not None and any(signal_tagged(tag, SIGTERM, only=shim_process) for tag in self._tags()):
            return True
        for tag in self._tags():
            signal_tagged(tag, SIGTERM)
        return False

    def kill_rest(self) -> None:
        """Kill what the job left behind, unless its shim ended by itself: such a shim has killed it already."""
        if not self.folder.is_free() or self.folder.exit_record() is None:
            self._kill()
        self.end_applications(self.folder, self.tag)

    def _kill_orphans(self) -> None:
        """Kill what a dead shim left behind, including a shim that is under way; called with the lock held."""
        self.folder.withdraw()
        self._kill()
        self.end_applications(self.folder, self.tag)
        self._tidy()

    def _kill(self) -> None:
        for tag in self._tags():
            kill_tagged(tag)

    def _tags(self) -> list[str]:
        """The tags that its processes may have in their environment: the try's own, or its warm driver's."""
        warm = self.folder.warm()
        return [self.tag] if warm is None else [warm.tag, self.tag]

    def _tidy(self) -> None:
        """Delete credentials and temporary files, which must not outlive the try."""
        self.folder.context.unlink(missing_ok=True)
        rmtree(self.folder.scratch, ignore_errors=True)
        if (warm := self.folder.warm()) is not None:
            rmtree(warm.folder, ignore_errors=True)
