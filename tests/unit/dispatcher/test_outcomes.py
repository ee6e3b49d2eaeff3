from datetime import timedelta

import pytest

from watcher.scheduling.tries.outcomes import Ending, Retries, TryOutcome, decide

NONE_LEFT = Retries(allowed=0, delay=timedelta(seconds=30), used=0)


def ended(finish_state=None, exit_code=0, *, claimed=True, **more):
    return Ending(finish_state=finish_state, claimed=claimed, exit_code=exit_code, **more)


@pytest.mark.parametrize(
    ("ending", "state", "run_state"),
    [
        (ended("success"), "success", "success"),
        (ended("success", 1), "success", "success"),
        (ended("success", None), "success", "success"),
        (ended("success", 143, stopped=True), "success", "success"),
        (ended("skipped"), "skipped", "success"),
        (ended("failed", 1), "failed", "failed"),
        (ended("failed", 0), "failed", "failed"),
        (ended("failed", 143, stopped=True), "up_for_retry", "running"),
        (ended("superseding", 1), "up_for_retry", "running"),
        (ended(None, 0), "failed", "failed"),
        (ended(None, 0, claimed=False), "success", "success"),
        (ended(None, 0, claimed=False, timed_out=True), "failed", "failed"),
        (ended(None, 0, timed_out=True), "failed", "failed"),
        (ended("success", 0, timed_out=True), "success", "success"),
        (ended(None, 1), "failed", "failed"),
        (ended(None, 1, claimed=False), "failed", "failed"),
        (ended(None, None), "failed", "failed"),
        (ended(None, 143, stopped=True), "up_for_retry", "running"),
        (ended(None, None, restarted=True), "up_for_retry", "running"),
        (ended("failed", None, restarted=True), "up_for_retry", "running"),
        (ended("success", None, restarted=True), "success", "success"),
        (ended(None, None, home_gone=True), "up_for_retry", "running"),
    ],
)
def test_the_table_of_endings(ending, state, run_state):
    outcome = decide(ending, NONE_LEFT)
    assert (outcome.state, outcome.run_state) == (state, run_state)


def test_a_try_that_misses_files_uses_no_retry():
    outcome = decide(ended("superseding", 1, message="a.csv was overwritten"), NONE_LEFT)
    assert (outcome.counted, outcome.retry_in) == (False, timedelta(0))
    assert "when their watchers have scanned again" in outcome.reason


def test_a_final_failure_uses_no_retry_whatever_happened_to_the_process():
    retries = Retries(allowed=3, delay=timedelta(seconds=30), used=0)
    for ending in (
        ended("failed", 1, message="a.csv has no header", is_final=True),
        ended("failed", 143, message="a.csv has no header", is_final=True, stopped=True),
        ended("failed", None, message="a.csv has no header", is_final=True, home_gone=True),
    ):
        outcome = decide(ending, retries)
        assert (outcome.state, outcome.run_state, outcome.counted) == ("failed", "failed", False)
        assert outcome.retry_in is None
        assert outcome.reason == "a.csv has no header (not tried again: another try would fail alike)"


def test_a_final_failure_without_retries_says_no_more_than_its_reason():
    assert decide(ended("failed", 1, message="no header", is_final=True), NONE_LEFT).reason == "no header"


def test_an_accepted_success_is_final_and_a_bad_exit_is_a_warning():
    assert decide(ended("success"), NONE_LEFT).warning is None
    assert decide(ended("success", 1), NONE_LEFT).warning == "the job finished as success and then exited with 1"


def test_a_job_that_never_claimed_succeeds_with_a_warning():
    outcome = decide(ended(None, 0, claimed=False), NONE_LEFT)
    assert "never used the SDK" in (outcome.warning or "")
    assert outcome.updates_outlets
    assert not decide(ended("success"), NONE_LEFT).updates_outlets


@pytest.mark.parametrize(
    ("ending", "reason"),
    [
        (ended("failed", 1, message="ValueError: no column id"), "ValueError: no column id"),
        (
            ended("failed", 1, message="KeyError: 'x'", reason="KeyError: 'x' (a.py line 3)"),
            "KeyError: 'x' (a.py line 3)",
        ),
        (ended("failed", 1, message="no rows", reason="KeyError: 'x' (a.py line 3)"), "no rows"),
        (
            ended("failed", 1, message="KeyError: 'x'\nand more", reason="KeyError: 'x' (a.py line 3)"),
            "KeyError: 'x' (a.py line 3)",
        ),
        (ended("failed", 1, reason="KeyError: 'x' (a.py line 3)"), "KeyError: 'x' (a.py line 3)"),
        (
            ended("failed", 137, message="ConnectionRefusedError: [Errno 111]", reason="the job was killed (SIGKILL)"),
            "the job was killed (SIGKILL)",
        ),
        (
            ended("failed", 1, message="[FAILED_READ_FILE.NO_HINT] Encountered", reason="CSV header does not (a.py)"),
            "CSV header does not (a.py)",
        ),
        (
            ended(
                "failed",
                1,
                message="OSError: [Errno 28] No space left on device",
                reason="the disk is full below /logs",
            ),
            "the disk is full below /logs",
        ),
        (
            ended(
                "failed", 1, message="OSError: [Errno 28] No space left on device: '/a'", reason="the disk is full (b)"
            ),
            "OSError: [Errno 28] No space left on device: '/a'",
        ),
        (ended("failed", None, message="ConnectionRefusedError: [Errno 111]"), "ConnectionRefusedError: [Errno 111]"),
        (ended("failed", 0), "the job reported that it failed"),
        (ended(None, 1, reason="the driver ran out of memory"), "the driver ran out of memory"),
        (ended(None, 7), "the job exited with 7"),
        (ended(None, None), "the job was lost: its process is gone without an exit code"),
        (
            ended(None, 0),
            "the job exited with 0 in the middle of `with run()`: let the block end, or raise an exception",
        ),
    ],
)
def test_a_failure_has_a_sentence_that_says_what_happened(ending, reason):
    assert decide(ending, NONE_LEFT).reason == reason


@pytest.mark.parametrize(("used", "seconds"), [(0, 30), (1, 60), (2, 120), (10, 600), (10_000, 600)])
def test_retries_double_their_delay_up_to_ten_minutes(used, seconds):
    outcome = decide(ended("failed", 1), Retries(allowed=20_000, delay=timedelta(seconds=30), used=used))
    assert (outcome.state, outcome.retry_in) == ("up_for_retry", timedelta(seconds=seconds))


def test_the_last_retry_ends_in_failure():
    outcome = decide(ended("failed", 1), Retries(allowed=2, delay=timedelta(seconds=1), used=2))
    assert (outcome.state, outcome.run_state) == ("failed", "failed")


@pytest.mark.parametrize(
    ("ending", "reason"),
    [
        (ended(None, 143, stopped=True), "stopped together with the daemon; it starts again with the daemon"),
        (ended(None, None, restarted=True), "lost by a restart of its machine; it starts again"),
        (
            ended(None, None, home_gone=True, restarted=True),
            "the daemon that had started it has been gone for too long; another daemon starts it again",
        ),
    ],
)
def test_a_failure_that_is_not_the_jobs_fault_uses_up_no_retry(ending, reason):
    outcome = decide(ending, NONE_LEFT)
    assert outcome == TryOutcome(
        state="up_for_retry", run_state="running", reason=reason, retry_in=timedelta(0), counted=False
    )
