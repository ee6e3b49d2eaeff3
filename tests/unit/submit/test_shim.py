from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from tests.effort import PATIENCE
from tests.unit.submit.plain import PlainPython, plain_python
from tests.unit.submit.switchboard import Switchboard
from watcher.submit.base import Submission
from watcher.submit.local import shim
from watcher.submit.local.folder import ExitRecord, TryFolder
from watcher.submit.local.processes import TAG_VARIABLE

NewTry = Callable[..., Submission]


def submitter_of(submission: Submission) -> PlainPython:
    return plain_python(Path(submission.application.application).parent)


def ordered(submission: Submission, *argv: str) -> TryFolder:
    """A folder as the daemon leaves it before it starts a shim."""
    submitter = submitter_of(submission)
    folder = submitter.folder(submission.key)
    folder.make()
    folder.order(list(argv) or submitter.command(submission, folder).argv)
    return folder


def start_shim(submission: Submission) -> subprocess.Popen[bytes]:
    environment = {"PATH": os.environ["PATH"], TAG_VARIABLE: submission.tag}
    argv = [sys.executable, "-I", shim.__file__, str(submitter_of(submission).folder(submission.key).path)]
    return subprocess.Popen(argv, env=environment, start_new_session=True, stderr=subprocess.DEVNULL)


def wait_ended(folder: TryFolder) -> ExitRecord:
    with suppress(ProcessLookupError):
        descriptor = os.pidfd_open(folder.shim_process() or -1)
        gone = select.select([descriptor], [], [], PATIENCE)[0]
        os.close(descriptor)
        assert gone
    found = folder.exit_record()
    assert found is not None
    return found


def stop(folder: TryFolder, grace: float) -> None:
    folder.request_stop(grace)
    process = folder.shim_process()
    assert process is not None
    os.kill(process, signal.SIGTERM)


def test_one_of_twenty_shims_starts_the_try(new_try: NewTry, switchboard: Switchboard) -> None:
    submission = new_try("open('starts', 'a').write('x'); call(sys.argv[1], 'main')")
    folder = ordered(submission)
    shims = [start_shim(submission) for _ in range(20)]
    exits = sorted(process.wait() for process in shims)
    assert exits == [0] + [1] * 19
    switchboard.next_caller().release()
    assert wait_ended(folder).exit_code == 0
    assert (folder.path / "work" / "starts").read_text() == "x"


def test_the_first_process_ends_when_the_start_is_certain(new_try: NewTry, switchboard: Switchboard) -> None:
    submission = new_try("call(sys.argv[1], 'main')")
    folder = ordered(submission)
    assert start_shim(submission).wait() == 0
    assert folder.started()
    assert switchboard.next_caller().lives()


def test_a_withdrawn_try_is_not_started(new_try: NewTry) -> None:
    submission = new_try("")
    folder = ordered(submission)
    folder.withdraw()
    assert start_shim(submission).wait() == 1
    assert not folder.started()


def test_a_probe_delays_the_shim_but_does_not_stop_it(new_try: NewTry) -> None:
    submission = new_try("")
    folder = ordered(submission)
    with folder.unlocked() as free:
        assert free
        process = start_shim(submission)
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(timeout=0.3)
        assert not folder.started()
    assert process.wait() == 0
    assert wait_ended(folder).exit_code == 0


def test_the_exit_code_is_recorded(new_try: NewTry) -> None:
    submission = new_try("sys.exit(7)")
    folder = ordered(submission)
    start_shim(submission).wait()
    found = wait_ended(folder)
    assert (found.exit_code, found.signal, found.stopped, found.reason) == (7, None, False, "")
    assert found.started_at < found.ended_at


def test_the_exit_code_is_recorded_below_a_parent_that_ignores_its_children(new_try: NewTry) -> None:
    submission = new_try("sys.exit(7)")
    folder = ordered(submission)
    ignoring = (
        "import os, signal, sys; signal.signal(signal.SIGCHLD, signal.SIG_IGN); os.execv(sys.argv[1], sys.argv[1:])"
    )
    argv = [sys.executable, "-c", ignoring, sys.executable, "-I", shim.__file__, str(folder.path)]
    subprocess.run(argv, start_new_session=True, check=True)
    assert wait_ended(folder).exit_code == 7


def test_death_by_a_signal_is_recorded(new_try: NewTry) -> None:
    submission = new_try("os.kill(os.getpid(), signal.SIGKILL)")
    folder = ordered(submission)
    start_shim(submission).wait()
    found = wait_ended(folder)
    assert (found.exit_code, found.signal) == (137, 9)


def test_a_program_that_does_not_exist_is_recorded_with_its_name(new_try: NewTry) -> None:
    submission = new_try("")
    folder = ordered(submission, "/nowhere/spark-submit")
    start_shim(submission).wait()
    found = wait_ended(folder)
    assert (found.exit_code, found.reason) == (
        127,
        "/nowhere/spark-submit could not be started: No such file or directory",
    )


@pytest.mark.parametrize("how", ["", "start_new_session=True", "close_fds=False"])
def test_processes_that_outlive_the_job_are_killed_before_its_end_is_recorded(
    new_try: NewTry, switchboard: Switchboard, how: str
) -> None:
    submission = new_try(f"child('grandchild', {how}); call(sys.argv[1], 'main')")
    folder = ordered(submission)
    start_shim(submission).wait()
    main, grandchild = switchboard.callers("main", "grandchild")
    main.release()
    assert wait_ended(folder).exit_code == 0
    assert not grandchild.lives()


def test_sigterm_reaches_all_processes_of_the_job(new_try: NewTry, switchboard: Switchboard) -> None:
    submission = new_try("""
signal.signal(signal.SIGTERM, lambda *_: sys.exit(3))
child('grandchild')
call(sys.argv[1], 'main')
""")
    folder = ordered(submission)
    start_shim(submission).wait()
    switchboard.callers("main", "grandchild")
    stop(folder, grace=60)
    found = wait_ended(folder)
    assert (found.exit_code, found.signal, found.stopped) == (3, None, True)


def test_processes_that_ignore_sigterm_are_killed_after_the_grace(new_try: NewTry, switchboard: Switchboard) -> None:
    submission = new_try("signal.signal(signal.SIGTERM, signal.SIG_IGN); call(sys.argv[1], 'main')")
    folder = ordered(submission)
    start_shim(submission).wait()
    main = switchboard.next_caller()
    stop(folder, grace=0.1)
    found = wait_ended(folder)
    assert (found.signal, found.stopped) == (9, True)
    main.wait_gone()


def test_children_get_the_grace_too(new_try: NewTry, switchboard: Switchboard) -> None:
    """The first process dies of SIGTERM at once; its child needs a moment longer, and gets it."""
    submission = new_try("""
PROGRAM += "signal.signal(signal.SIGTERM, lambda *_: (call(%r, 'cleaning'), open('clean', 'w'), sys.exit()));" % sys.argv[1]
child('grandchild')
call(sys.argv[1], 'main')
""")
    folder = ordered(submission)
    start_shim(submission).wait()
    main, _ = switchboard.callers("main", "grandchild")
    stop(folder, grace=60)
    cleaning = switchboard.next_caller()
    main.wait_gone()
    cleaning.release()
    assert wait_ended(folder).signal == signal.SIGTERM
    assert (folder.path / "work" / "clean").exists()


def test_a_second_request_with_less_grace_counts(new_try: NewTry, switchboard: Switchboard) -> None:
    submission = new_try("signal.signal(signal.SIGTERM, signal.SIG_IGN); call(sys.argv[1], 'main')")
    folder = ordered(submission)
    start_shim(submission).wait()
    switchboard.next_caller()
    stop(folder, grace=3600)
    stop(folder, grace=0)
    assert wait_ended(folder).signal == signal.SIGKILL


def test_the_job_inherits_no_blocked_or_ignored_signal(new_try: NewTry) -> None:
    submission = new_try("")
    folder = ordered(submission, "/bin/sh", "-c", "grep -E '^Sig(Blk|Ign)' /proc/self/status > signals")
    start_shim(submission).wait()
    wait_ended(folder)
    for line in (folder.path / "work" / "signals").read_text().splitlines():
        inherited = int(line.split()[1], 16)
        ours = (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGTERM, signal.SIGCHLD)
        assert not any(inherited >> (number - 1) & 1 for number in ours), line


def test_the_start_marker_is_made_once(tmp_path: Path) -> None:
    """A shim that takes the lock may have checked for the marker before another shim ran the whole try."""
    shim.write_marker(tmp_path / "started.json", {"pid": 1})
    with pytest.raises(FileExistsError):
        shim.write_marker(tmp_path / "started.json", {"pid": 2})
    assert json.loads((tmp_path / "started.json").read_text()) == {"pid": 1}


def test_the_exit_file_is_there_in_whole_or_not_at_all(tmp_path: Path) -> None:
    with pytest.raises(TypeError):  # in the middle of writing
        shim.write_exit(tmp_path / "exit.json", shim.Ended(status=0, stopped=False, reason=object()), "now")  # type: ignore[arg-type]
    assert not (tmp_path / "exit.json").exists()
    shim.write_exit(tmp_path / "exit.json", shim.Ended(status=0, stopped=False), "now")
    assert json.loads((tmp_path / "exit.json").read_text())["exit_code"] == 0
