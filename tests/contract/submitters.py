"""What every submitter owes; run it over a new one by a subclass that names a factory (see test_spark_submit.py)."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable
from pathlib import Path
from typing import ClassVar

import anyio
import pytest

from tests.unit.submit import starter
from tests.unit.submit.switchboard import Switchboard
from watcher.submit.base import Attachment, Handle, Status, Submission, Submitter

NewTry = Callable[..., Submission]


async def ended(submitter: Submitter, handle: Handle) -> Status:
    """What `poll` says at the end, as a dispatcher would wait for it."""
    with anyio.fail_after(120):
        while (status := await submitter.poll(handle)).phase != "exited":
            await anyio.sleep(0.05)
    return status


async def log_of(submitter: Submitter, handle: Handle, offset: int = 0) -> str:
    return b"".join([chunk async for chunk in submitter.logs(handle, offset)]).decode()


class SubmitterContract:
    factory: ClassVar[str]
    """`module:function`, a function of the home folder that makes the submitter, here or in a process to be killed."""
    make: ClassVar[Callable[[Path], Submitter]]

    @pytest.fixture
    def submitter(self, tmp_path: Path) -> Submitter:
        return type(self).make(tmp_path / "home")

    async def test_a_job_runs_to_its_end_with_its_context_and_its_log(
        self, submitter: Submitter, new_try: NewTry, switchboard: Switchboard
    ) -> None:
        submission = new_try("""
print("context:", open(os.environ["ASSET_JOB_CONTEXT"]).read(), flush=True)
call(sys.argv[1], "main")
""")
        handles: list[Handle] = []

        async def submit() -> None:
            handles.append(await submitter.submit(submission))

        async with anyio.create_task_group() as tasks:  # at once: a try starts once all the same
            tasks.start_soon(submit)
            tasks.start_soon(submit)
        handle = handles[0]
        main = await anyio.to_thread.run_sync(switchboard.next_caller)
        assert handles[1] == handle
        assert (await submitter.poll(handle)).phase == "running"
        context = Path(submitter.folder(submission.key).path / "context.json")
        assert stat.S_IMODE(context.stat().st_mode) == 0o600
        assert "secret-token" not in _command_lines(submission.tag)
        main.let_go()
        status = await ended(submitter, handle)
        assert (status.exit_code, status.reason) == (0, "")
        log = await log_of(submitter, handle)
        assert 'context: {"token": "secret-token"}' in log
        assert await log_of(submitter, handle, offset=log.index("secret-token")) == log[log.index("secret-token") :]
        assert not context.exists()
        assert await submitter.attach(submission.key, submission.tag, None) == handle
        assert await submitter.submit(submission) == handle
        assert switchboard.nobody_waits()

    async def test_an_exception_ends_the_job_with_a_reason_and_its_trace_in_the_log(
        self, submitter: Submitter, new_try: NewTry
    ) -> None:
        handle = await submitter.submit(new_try("raise RuntimeError('on purpose')"))
        status = await ended(submitter, handle)
        assert status.exit_code == 1
        log = (await log_of(submitter, handle)).splitlines()
        number = log.index("RuntimeError: on purpose") + 1
        assert re.fullmatch(
            rf"RuntimeError: on purpose \(application_0.py line \d+; log line {number}\)", status.reason
        )

    async def test_cancelling_leaves_no_process(
        self, submitter: Submitter, new_try: NewTry, switchboard: Switchboard
    ) -> None:
        submission = new_try("""
signal.signal(signal.SIGTERM, signal.SIG_IGN)
child("grandchild", start_new_session=True)
call(sys.argv[1], "main")
""")
        handle = await submitter.submit(submission)
        callers = await anyio.to_thread.run_sync(switchboard.callers, "main", "grandchild")
        await submitter.cancel(handle, grace=0.2)
        for caller in callers:
            caller.wait_gone()
        assert _command_lines(submission.tag) == ""
        status = await submitter.poll(handle)
        assert status.phase == "exited"
        assert status.exit_code != 0
        assert status.reason == "the job was stopped on request"
        await submitter.cancel(handle, grace=0)

    async def test_a_job_outlives_the_daemon_that_started_it(
        self, submitter: Submitter, new_try: NewTry, switchboard: Switchboard, tmp_path: Path
    ) -> None:
        submission = new_try("call(sys.argv[1], 'main'); sys.exit(5)")
        assert await submitter.attach(submission.key, submission.tag, None) is Attachment.ABSENT
        with starter.start(self.factory, tmp_path / "home", submission) as process:
            assert starter.said(process) == "submitted"
            process.kill()
        main = await anyio.to_thread.run_sync(switchboard.next_caller)
        handle = await submitter.attach(submission.key, submission.tag, None)
        assert not isinstance(handle, Attachment)
        assert await submitter.attach(submission.key, submission.tag, handle) == handle
        assert (await submitter.poll(handle)).phase == "running"
        main.let_go()
        assert (await ended(submitter, handle)).exit_code == 5
        assert switchboard.nobody_waits()


def _command_lines(tag: str) -> str:
    """Of all processes of the try, as every user of the machine can read them."""
    found = ""
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if tag in (folder / "environ").read_text(errors="replace") and int(folder.name) != os.getpid():
                found += (folder / "cmdline").read_text(errors="replace") + "\n"
        except OSError:
            continue
    return found
