"""What becomes of a task instance and its run when nothing of a try is alive any more: pure rules.

reported      the process           becomes
anything      a person cancelled    what the person decided; here only a process ends
success       exited with 0         success
success       ended otherwise       success, with a warning: an accepted finish is final
skipped       ended in any way      skipped (the run is a success), with a warning unless it exited with 0
not success   we stopped it         up_for_retry at once, without using up a retry
not success   its home is gone      the same, on another home
not success   its machine restarted the same, when the daemon is back
failed        ended                 retry or failed
superseding   ended in any way      up_for_retry, without using up a retry: newer versions of its files are looked for first
failed, final ended in any way      failed, without using up a retry: another try would fail alike
nothing       exited with 0         retry or failed: it exited without reporting a result
nothing       … after its timeout   retry or failed: it was stopped, and its exit code means nothing
nothing       … and never claimed   success, with a warning: the job does not use the SDK; its outlets get events
nothing       ended otherwise       retry or failed
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import timedelta
from typing import Final, Literal

LONGEST_DELAY: Final = timedelta(minutes=10)
_HIDES_THE_CAUSE: Final = re.compile(
    r"^(ConnectionRefusedError|ConnectionResetError|Py4JNetworkError)|Answer from Java side is empty"
    r"|\[FAILED_READ_FILE|\[TASK_WRITE_FAILED|Job aborted|No space left on device$"
)
"""Messages that a program gets when its JVM is gone, when one of its tasks failed, or when a disk that they do not name is full.

The cause is not in them.
"""
_STOPPED: Final = "stopped together with the daemon; it starts again with the daemon"
_RESTARTED: Final = "lost by a restart of its machine; it starts again"
_SUPERSEDING: Final = (
    "superseding: files were deleted or written again since they were detected; the next try begins when their watchers have"
    " scanned again"
)
_HOME_GONE: Final = "the daemon that had started it has been gone for too long; another daemon starts it again"


@dataclass(frozen=True, kw_only=True)
class Ending:
    """How a try ended. `exit_code` None means lost. `reason` is the submitter's sentence, `message` the job's own."""

    finish_state: str | None
    claimed: bool
    exit_code: int | None
    is_final: bool = False
    """The job reported that another try would fail alike."""
    reason: str = ""
    message: str | None = None
    stopped: bool = False
    home_gone: bool = False
    restarted: bool = False
    timed_out: bool = False
    """It was stopped because it ran too long."""

    @property
    def excuse(self) -> str:
        """Why a failure does not count against the job; '' if it counts."""
        if self.finish_state == "superseding":
            return _SUPERSEDING
        if self.home_gone:
            return _HOME_GONE
        if self.stopped:
            return _STOPPED
        return _RESTARTED if self.restarted else ""


@dataclass(frozen=True, kw_only=True)
class Retries:
    """How often, and after which delay, a failed try is repeated. `used` tries have ended and counted before this one."""

    allowed: int
    delay: timedelta
    used: int


@dataclass(frozen=True, kw_only=True)
class TryOutcome:
    """The next state of the task instance and of the run. `retry_in` is set exactly if the state is `up_for_retry`."""

    state: Literal["success", "skipped", "failed", "up_for_retry"]
    run_state: Literal["success", "failed", "running"]
    reason: str | None = None
    warning: str | None = None
    retry_in: timedelta | None = None
    counted: bool = True
    updates_outlets: bool = False
    """The job does not use the SDK, so its success alone emits the events of its outlets."""


def decide(ending: Ending, retries: Retries) -> TryOutcome:
    """Apply the table above."""
    match ending.finish_state:
        case "success" | "skipped" as state:
            warning = None if ending.exit_code == 0 else f"the job finished as {state} and then {_exit(ending)}"
            return TryOutcome(state=state, run_state="success", reason=ending.message, warning=warning)
        case "failed" if ending.is_final or not ending.excuse:
            return _reported_failure(ending, retries)
    if ending.excuse:
        return _retry_uncounted(ending.excuse)
    if ending.exit_code == 0 and not ending.claimed and not ending.timed_out:
        return TryOutcome(
            state="success",
            run_state="success",
            updates_outlets=True,
            warning="the job never used the SDK: its exit code 0 is all that is known, and it was not fenced",
        )
    if ending.exit_code == 0 and not ending.timed_out:
        return _retry_or_failed(
            "the job exited with 0 in the middle of `with run()`: let the block end, or raise an exception", retries
        )
    return _retry_or_failed(ending.reason or f"the job {_exit(ending)}", retries)


def _reported_failure(ending: Ending, retries: Retries) -> TryOutcome:
    reason = _best_reason(ending) or "the job reported that it failed"
    if not ending.is_final:
        return _retry_or_failed(reason, retries)
    if retries.used < retries.allowed:
        reason = f"{reason} (not tried again: another try would fail alike)"
    return TryOutcome(state="failed", run_state="failed", reason=reason, counted=False)


def _best_reason(ending: Ending) -> str:
    """The job's own message, unless the submitter's reason is the same with its log line, or names the cause behind it."""
    message = (ending.message or "").partition("\n")[0]
    is_known = message in ending.reason or (_HIDES_THE_CAUSE.search(message) and ending.reason)
    return ending.reason if is_known else ending.message or ""


def _retry_uncounted(reason: str) -> TryOutcome:
    return TryOutcome(state="up_for_retry", run_state="running", reason=reason, retry_in=timedelta(0), counted=False)


def _retry_or_failed(reason: str, retries: Retries) -> TryOutcome:
    if retries.used >= retries.allowed:
        return TryOutcome(state="failed", run_state="failed", reason=reason)
    doubled = retries.delay.total_seconds() * 2.0 ** min(
        retries.used, 1000
    )  # a float cannot overflow here, a timedelta could
    delay = timedelta(seconds=min(doubled, LONGEST_DELAY.total_seconds()))
    return TryOutcome(state="up_for_retry", run_state="running", reason=reason, retry_in=delay)


def _exit(ending: Ending) -> str:
    if ending.exit_code is None:
        return "was lost: its process is gone without an exit code"
    return f"exited with {ending.exit_code}"
