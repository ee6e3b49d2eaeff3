"""What every submitter must do (docs/writing-a-submitter.md): test classes to subclass, as test_submitters.py does."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import ClassVar

import anyio
import pytest

from tests.effort import PATIENCE
from tests.unit.submit import starter
from tests.unit.submit.switchboard import Caller, Switchboard
from watcher.submit.base import Attachment, Handle, Needs, Status, Submission, Submitter

NewTry = Callable[..., Submission]
CONTEXT = """
context = os.environ["ASSET_JOB_CONTEXT"]
print("context:", context, oct(os.stat(context).st_mode & 0o777), open(context).read(), flush=True)
import asset_job
"""


async def ended(submitter: Submitter, handle: Handle) -> Status:
    """Wait for the final status, as a dispatcher would."""
    with anyio.fail_after(PATIENCE):
        while (status := await submitter.poll(handle)).phase != "exited":
            await anyio.sleep(0.05)
    return status


async def log_of(submitter: Submitter, handle: Handle, offset: int = 0) -> str:
    return b"".join([chunk async for chunk in submitter.logs(handle, offset)]).decode()


class ProcessesContract:
    """The part of the contract that depends on how the processes are started."""

    factory: ClassVar[str]
    """`module:function`, a function of the home folder that makes the submitter, here or in a process to be killed."""

    @pytest.fixture
    def submitter(self, tmp_path: Path) -> Submitter:
        return starter.make(self.factory, tmp_path / "home")

    async def test_cancelling_leaves_no_process(
        self, submitter: Submitter, new_try: NewTry, switchboard: Switchboard
    ) -> None:
        submission = new_try("""
signal.signal(signal.SIGTERM, signal.SIG_IGN)
child("grandchild")
call(sys.argv[1], "main")
""")
        handle = await submitter.submit(submission)
        callers = await anyio.to_thread.run_sync(switchboard.callers, "main", "grandchild")
        await submitter.cancel(handle, grace=0.2)
        for caller in callers:
            caller.wait_gone()
        status = await submitter.poll(handle)
        assert status.phase == "exited"
        assert status.exit_code != 0
        await submitter.cancel(handle, grace=0)
        assert await submitter.attach(submission.key, submission.tag, handle) == handle

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
        main.release()
        assert (await ended(submitter, handle)).exit_code == 5
        assert switchboard.nobody_waits()


class SubmitterContract(ProcessesContract):
    async def test_a_job_runs_to_its_end_with_its_context_the_sdk_and_its_log(
        self, submitter: Submitter, new_try: NewTry, switchboard: Switchboard
    ) -> None:
        submission = new_try(f"{CONTEXT}call(sys.argv[1], 'main')")
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
        assert "secret-token" not in "".join(_command_lines(main))
        main.release()
        status = await ended(submitter, handle)
        log = await log_of(submitter, handle)
        assert (status.exit_code, status.reason) == (0, ""), log
        shown = re.search(r"context: (\S+) 0o600 (.*)", log)
        assert shown is not None, log
        assert json.loads(shown[2]) == submission.context
        assert not Path(shown[1]).exists(), "credentials outlive the try"
        offset = len(log[: log.index("secret-token")].encode())
        assert await log_of(submitter, handle, offset) == log[log.index("secret-token") :]
        assert await submitter.attach(submission.key, submission.tag, None) == handle
        assert await submitter.submit(submission) == handle
        assert switchboard.nobody_waits()

    async def test_a_failure_is_an_exit_code_and_its_trace_is_in_the_log(
        self, submitter: Submitter, new_try: NewTry
    ) -> None:
        handle = await submitter.submit(new_try("print('first'); raise RuntimeError('on purpose')"))
        status = await ended(submitter, handle)
        assert status.exit_code == 1
        assert not status.restarted
        log = await log_of(submitter, handle)
        assert log.index("first") < log.index("RuntimeError: on purpose")

    async def test_a_try_that_is_gone_without_an_exit_code_is_lost_never_absent(
        self, submitter: Submitter, new_try: NewTry
    ) -> None:
        """A handle proves that the try was started, even if nothing else is left of it."""
        submission, other = new_try(""), new_try("")
        handle = await submitter.submit(submission)
        await ended(submitter, handle)
        nowhere = {name: self.renamed(value, submission, other) for name, value in handle.items()}
        assert await submitter.attach(other.key, other.tag, nowhere) in {Attachment.LOST, Attachment.RESTARTED}

    async def test_needs_are_known_without_waiting(self, submitter: Submitter, new_try: NewTry) -> None:
        assert isinstance(submitter.needs(new_try("").application), Needs)
        assert isinstance(type(submitter).ends_with_home, bool)

    @staticmethod
    def renamed(value: object, submission: Submission, other: Submission) -> object:
        """Replace the name of the first try by that of the other one, to get a handle of a try that does not exist."""
        if not isinstance(value, str):
            return value
        return value.replace(submission.key.task_instance_id, other.key.task_instance_id)


def _command_lines(caller: Caller) -> Iterator[str]:
    """The command lines of a process and all its ancestors, which every user of the machine can read."""
    process = caller.process
    while process > 1:
        folder = Path(f"/proc/{process}")
        yield (folder / "cmdline").read_text(errors="replace")
        process = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
