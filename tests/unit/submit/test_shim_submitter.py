from __future__ import annotations

import os
import re
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest

from tests.contract.submitters import ended, log_of
from tests.effort import effort
from tests.unit.submit import starter
from tests.unit.submit.plain import PlainPython, plain_python
from tests.unit.submit.switchboard import Switchboard
from watcher.host.logs.reader import around_line
from watcher.submit.base import Attachment, Submission, SubmitError
from watcher.submit.local import shim
from watcher.submit.local.exit_reason import explain_exit
from watcher.submit.local.folder import ExitRecord, TryFolder
from watcher.submit.local.shim_submitter import Command

NewTry = Callable[..., Submission]
FACTORY = "tests.unit.submit.plain:plain_python"
DELAYS = (0, 0.02, 0.04, 0.06, 0.07, 0.08, 0.09, 0.1, 0.12, 0.2)[:: effort(2, 1)]


@pytest.fixture
def submitter(tmp_path: Path) -> PlainPython:
    return plain_python(tmp_path)


@pytest.mark.slow
async def test_the_job_starts_once_wherever_the_daemon_is_killed(
    submitter: PlainPython, new_try: NewTry, switchboard: Switchboard, tmp_path: Path
) -> None:
    """A submission takes about a tenth of a second; the kills are spread over it, whatever the machine's speed."""
    for delay in DELAYS:
        submission = new_try("open('starts', 'a').write('x'); call(sys.argv[1], 'main')")
        with starter.start(FACTORY, tmp_path, submission) as process:
            with anyio.move_on_after(delay):
                await anyio.sleep_forever()
            process.kill()
        handle = await submitter.attach(submission.key, submission.tag, None)
        if handle is Attachment.ABSENT:
            handle = await submitter.submit(submission)
        assert not isinstance(handle, Attachment)
        (await anyio.to_thread.run_sync(switchboard.next_caller)).release()
        assert (await ended(submitter, handle)).exit_code == 0
        assert (submitter.folder(submission.key).path / "work" / "starts").read_text() == "x"
        assert switchboard.nobody_waits()


async def test_a_try_reported_as_absent_is_not_started_by_a_late_shim(submitter: PlainPython, new_try: NewTry) -> None:
    submission = new_try("")
    folder = submitter.folder(submission.key)
    folder.make()
    folder.order(submitter.command(submission, folder).argv)
    assert await submitter.attach(submission.key, submission.tag, None) is Attachment.ABSENT
    argv = [sys.executable, "-I", shim.__file__, str(folder.path)]
    assert (await anyio.run_process(argv, check=False, start_new_session=True)).returncode == 1
    assert not folder.started()


async def test_a_submission_waits_for_a_concurrent_one_and_leaves_its_files_alone(
    submitter: PlainPython, new_try: NewTry
) -> None:
    asked = anyio.Event()

    class Telling(PlainPython):
        def command(self, submission: Submission, folder: TryFolder) -> Command:
            anyio.from_thread.run_sync(asked.set)
            return super().command(submission, folder)

    submission = new_try("")
    folder = submitter.folder(submission.key)
    folder.make()
    async with anyio.create_task_group() as tasks:
        with folder.preparing():
            tasks.start_soon(Telling(submitter.workspace).submit, submission)
            await asked.wait()
            with anyio.move_on_after(0.3):  # too long for whoever does not wait
                await anyio.sleep_forever()
            shim.write_marker(folder.path / "started.json", {"pid": 1})
    assert not (folder.path / "command.json").exists()
    assert not folder.context.exists()


@pytest.mark.parametrize(
    ("marker", "restarted"),
    [
        ('{"pid": 1, "boot_id": "00000000-0000-0000-0000-000000000000"}', True),
        (f'{{"pid": 1, "boot_id": "{shim.boot_id()}"}}', False),
        ('{"pid": 1, "bo', True),
    ],
)
async def test_tries_that_a_restart_of_the_machine_ended_are_recognized(
    submitter: PlainPython, new_try: NewTry, marker: str, restarted: bool
) -> None:
    submission = new_try("")
    folder = submitter.folder(submission.key)
    folder.make()
    (folder.path / "started.json").write_text(marker)
    handle = submitter.handle(submission.key, submission.tag)
    status = await submitter.poll(handle)
    assert (status.phase, status.exit_code, status.restarted) == ("exited", None, restarted)
    lost = Attachment.RESTARTED if restarted else Attachment.LOST
    assert await submitter.attach(submission.key, submission.tag, handle) is lost
    assert await submitter.attach(submission.key, submission.tag, None) is lost


async def test_a_try_with_a_handle_is_never_absent(submitter: PlainPython, new_try: NewTry) -> None:
    """The folder of a try that was started has been deleted."""
    submission = new_try("")
    handle = submitter.handle(submission.key, submission.tag)
    assert await submitter.attach(submission.key, submission.tag, handle) is Attachment.LOST


async def test_a_job_whose_shim_was_killed_keeps_running_and_is_lost_when_it_ends(
    submitter: PlainPython, new_try: NewTry, switchboard: Switchboard
) -> None:
    submission = new_try("child('grandchild'); call(sys.argv[1], 'main')")
    handle = await submitter.submit(submission)
    main, grandchild = await anyio.to_thread.run_sync(switchboard.callers, "main", "grandchild")
    await kill_shim(submitter, submission)
    assert await submitter.attach(submission.key, submission.tag, handle) == handle
    assert (await submitter.poll(handle)).phase == "running"
    main.release()
    main.wait_gone()
    assert grandchild.lives()
    assert await submitter.attach(submission.key, submission.tag, None) is Attachment.LOST
    assert not grandchild.lives()


async def test_polling_a_lost_try_kills_its_remaining_processes_and_deletes_its_credentials(
    submitter: PlainPython, new_try: NewTry, switchboard: Switchboard
) -> None:
    submission = new_try("child('grandchild'); call(sys.argv[1], 'main')")
    handle = await submitter.submit(submission)
    main, grandchild = await anyio.to_thread.run_sync(switchboard.callers, "main", "grandchild")
    await kill_shim(submitter, submission)
    main.kill()
    main.wait_gone()
    status = await ended(submitter, handle)
    assert status.exit_code is None
    assert status.reason.startswith("the job was lost")
    assert not grandchild.lives()
    assert not (submitter.folder(submission.key).path / "context.json").exists()
    assert await submitter.submit(submission) == handle
    assert switchboard.nobody_waits()


async def test_a_job_whose_shim_is_gone_can_be_cancelled(
    submitter: PlainPython, new_try: NewTry, switchboard: Switchboard
) -> None:
    submission = new_try("signal.signal(signal.SIGTERM, signal.SIG_IGN); call(sys.argv[1], 'main')")
    handle = await submitter.submit(submission)
    main = await anyio.to_thread.run_sync(switchboard.next_caller)
    await kill_shim(submitter, submission)
    await submitter.cancel(handle, grace=0)
    assert not main.lives()
    assert (await submitter.poll(handle)).phase == "exited"


async def test_a_process_id_that_now_belongs_to_another_process_is_left_alone(
    submitter: PlainPython, new_try: NewTry, switchboard: Switchboard
) -> None:
    submission = new_try("call(sys.argv[1], 'main')")
    handle = await submitter.submit(submission)
    main = await anyio.to_thread.run_sync(switchboard.next_caller)
    marker = submitter.folder(submission.key).path / "started.json"
    async with await anyio.open_process(["/bin/cat"]) as somebody:
        marker.write_text(f'{{"pid": {somebody.pid}}}')
        await submitter.cancel(handle, grace=5)
        assert not main.lives()
        assert somebody.stdin
        assert somebody.stdout
        await somebody.stdin.send(b"alive")
        assert await somebody.stdout.receive() == b"alive"
        await somebody.stdin.aclose()


async def test_a_try_cancelled_before_its_start_never_starts(submitter: PlainPython, new_try: NewTry) -> None:
    submission = new_try("")
    folder = submitter.folder(submission.key)
    folder.make()
    folder.order(["/bin/true"])
    handle = submitter.handle(submission.key, submission.tag)
    await submitter.cancel(handle, grace=0)
    assert not (folder.path / "command.json").exists()


async def test_a_machine_that_lacks_something_is_reported_and_nothing_runs(
    submitter: PlainPython, new_try: NewTry
) -> None:
    class Lacking(PlainPython):
        def command(self, submission: Submission, folder: TryFolder) -> Command:
            raise SubmitError(f"{submission.key.instance.dag_id} needs {folder.path.name}.")

    submission = new_try("")
    with pytest.raises(SubmitError, match="load_orders needs 1"):
        await Lacking(submitter.workspace).submit(submission)
    assert await submitter.attach(submission.key, submission.tag, None) is Attachment.ABSENT


async def test_a_file_that_cannot_be_made_is_reported_and_the_try_may_be_submitted_again(
    submitter: PlainPython, new_try: NewTry
) -> None:
    submission = new_try("")
    submitter.log(submission.key).mkdir(parents=True)
    with pytest.raises(SubmitError, match=r"the job could not be started from .*Is a directory"):
        await submitter.submit(submission)
    submitter.log(submission.key).rmdir()
    assert await submitter.attach(submission.key, submission.tag, None) is Attachment.ABSENT
    handle = await submitter.submit(submission)
    assert (await ended(submitter, handle)).exit_code == 0


async def test_a_shim_that_fails_is_reported_and_nothing_will_start(submitter: PlainPython, new_try: NewTry) -> None:
    submission = new_try("")
    submitter.folder(submission.key).path.mkdir(parents=True)
    (submitter.folder(submission.key).path / "started.json").symlink_to("nowhere")  # cannot be made, and is not there
    with pytest.raises(SubmitError, match="the process that starts the job failed"):
        await submitter.submit(submission)
    assert not (submitter.folder(submission.key).path / "command.json").exists()


async def test_the_log_keeps_what_other_processes_appended(submitter: PlainPython, new_try: NewTry) -> None:
    submission = new_try("print('from the job')")
    submitter.log(submission.key).parent.mkdir(parents=True, exist_ok=True)
    submitter.log(submission.key).write_text("from the daemon\n")
    handle = await submitter.submit(submission)
    await ended(submitter, handle)
    assert await log_of(submitter, handle) == "from the daemon\nfrom the job\n"


async def test_a_missing_log_is_empty(submitter: PlainPython, new_try: NewTry) -> None:
    submission = new_try("")
    handle = submitter.handle(submission.key, submission.tag)
    assert await log_of(submitter, handle) == ""


async def kill_shim(submitter: PlainPython, submission: Submission) -> None:
    process = submitter.folder(submission.key).shim_process()
    assert process is not None
    descriptor = os.pidfd_open(process)
    try:
        signal.pidfd_send_signal(descriptor, signal.SIGKILL)
        await anyio.wait_readable(descriptor)
    finally:
        os.close(descriptor)


async def test_a_stopped_job_has_a_reason_and_leaves_nothing_in_other_sessions(
    submitter: PlainPython, new_try: NewTry, switchboard: Switchboard
) -> None:
    submission = new_try("child('grandchild', start_new_session=True); call(sys.argv[1], 'main')")
    handle = await submitter.submit(submission)
    callers = await anyio.to_thread.run_sync(switchboard.callers, "main", "grandchild")
    await submitter.cancel(handle, grace=5)
    for caller in callers:
        caller.wait_gone()
    assert (await submitter.poll(handle)).reason == "the job was stopped on request"


async def test_cpu_time_and_memory_are_known_at_the_end(submitter: PlainPython, new_try: NewTry) -> None:
    handle = await submitter.submit(
        new_try("import time; filled = b'x' * 200_000_000\nwhile time.process_time() < 0.5: pass")
    )
    status = await ended(submitter, handle)
    assert status.cpu_seconds is not None
    assert 0.5 <= status.cpu_seconds < 60
    assert status.peak_memory_mb is not None
    assert status.peak_memory_mb > 190


async def test_an_exception_is_reported_with_its_line(submitter: PlainPython, new_try: NewTry) -> None:
    handle = await submitter.submit(new_try("raise RuntimeError('on purpose')"))
    status = await ended(submitter, handle)
    number = (await log_of(submitter, handle)).splitlines().index("RuntimeError: on purpose") + 1
    assert re.fullmatch(rf"RuntimeError: on purpose \(application_0.py line \d+; log line {number}\)", status.reason)


SAID = "ok\nTraceback (most recent call last):\n  File \"/jobs/load.py\", line 4\nKeyError: 'id'\n"


@pytest.mark.parametrize(
    ("exit_code", "killed_by", "stopped", "log", "sentence"),
    [
        (0, None, False, SAID, ""),
        (1, None, False, SAID, "KeyError: 'id' (load.py line 4; log line 4)"),
        (
            1,
            None,
            False,
            "x" * 70 + "\n",
            f"the job ended with exit code 1; the last line of its log: {'x' * 70} (log line 1)",
        ),
        (3, None, False, "", "the job ended with exit code 3 and logged nothing"),
        (143, 15, False, "", "the job was ended by SIGTERM and logged nothing"),
        (168, 40, False, "", "the job was ended by signal 40 and logged nothing"),
        (75, None, False, SAID, "another process had already claimed this try"),
        (137, 9, False, SAID, "the job was killed (SIGKILL); unless a person did that, the machine is out of memory"),
        (137, 9, True, SAID, "the job was stopped on request"),
    ],
)
def test_how_a_try_ended_is_explained(
    exit_code: int, killed_by: int | None, stopped: bool, log: str, sentence: str, tmp_path: Path
) -> None:
    (tmp_path / "log").write_text(log)
    found = ExitRecord(exit_code=exit_code, signal=killed_by, stopped=stopped, reason="", started_at="", ended_at="")
    assert explain_exit(found, tmp_path / "log").startswith(sentence)
    assert bool(explain_exit(found, tmp_path / "log")) == bool(sentence)
    (tmp_path / "log").unlink()
    assert bool(explain_exit(found, tmp_path / "log")) == bool(sentence)


@pytest.mark.parametrize("lines_before", [0, 1, 3000, 20_000])
def test_the_log_line_is_counted_from_the_start_of_a_long_log(lines_before: int, tmp_path: Path) -> None:
    (tmp_path / "log").write_text("INFO of the job's own, of no interest\n" * lines_before + SAID)
    found = ExitRecord(exit_code=1, signal=None, stopped=False, reason="", started_at="", ended_at="")
    assert explain_exit(found, tmp_path / "log").endswith(f"log line {lines_before + 4})")
    content = (tmp_path / "log").read_bytes()  # of which the page of that line reads the end only
    (tmp_path / "log").write_bytes(b"\0" * max(len(content) - 66_000, 0) + content[-66_000:])
    [(number, record)] = around_line(tmp_path / "log", lines_before + 4, before=0, after=0)
    assert (number, record["event"]) == (lines_before + 4, SAID.splitlines()[3])
