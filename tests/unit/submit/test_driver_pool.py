"""Waiting drivers, with a stand-in for Spark: what becomes of them, and of tries that they do not get."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from signal import SIGKILL
from typing import Any

import anyio
import pytest

from tests.contract.submitters import ended, log_of
from tests.effort import PATIENCE
from tests.stand_in_spark import stand_in_spark
from tests.unit.submit.plain import workspace
from tests.unit.submit.switchboard import Switchboard
from tests.unit.submit.warm import starts_warm
from watcher.features.warm.driver import WarmDriver, reap_left_behind
from watcher.features.warm.submitter import WarmSparkSubmit
from watcher.host.logs import event_logs
from watcher.submit.base import Submission, WarmConditions, WarmRequest, start
from watcher.submit.local.processes import signal_tagged

NewTry = Callable[..., Submission]


@pytest.fixture
def new_try(new_try: NewTry, tmp_path: Path) -> NewTry:
    environment = {"SPARK_HOME": str(stand_in_spark(tmp_path))}

    def make(text: str, **more: Any) -> Submission:
        return new_try(text, env=environment, **more)

    return make


@pytest.fixture
def submitter(tmp_path: Path) -> WarmSparkSubmit:
    return WarmSparkSubmit(workspace(tmp_path / "home"))


@asynccontextmanager
async def waiting(submitter: WarmSparkSubmit, submission: Submission, **conditions: Any) -> AsyncIterator[None]:
    """Keep a driver that waits for such tries, and is replaced when it is gone."""
    request = WarmRequest(
        dag_id=submission.key.instance.dag_id, count=1, application=submission.application, connections={}
    )
    submitter.warm.adopt([request])
    memory = {"memory_mb": 4000, "warm_memory_mb": 2000}
    async with anyio.create_task_group() as tasks:
        await tasks.start(submitter.warm.run, WarmConditions(**{**memory, **conditions}))
        await ready(submitter)
        yield
        tasks.cancel_scope.cancel()


async def ready(submitter: WarmSparkSubmit) -> None:
    with anyio.fail_after(PATIENCE):
        while not submitter.warm.states["ready"]:
            await anyio.sleep(0.02)


async def gone(home: Path) -> None:
    with anyio.fail_after(PATIENCE):
        while list(home.glob("warm/*")):
            await anyio.sleep(0.02)


def lives(tag: str) -> bool:
    return bool(signal_tagged(tag, 0))  # no signal: only a look


async def test_a_try_is_handed_over_and_its_driver_replaced(
    submitter: WarmSparkSubmit, new_try: NewTry, switchboard: Switchboard, tmp_path: Path
) -> None:
    submission = new_try("call(sys.argv[1], 'main')")
    async with waiting(submitter, submission):
        handle = await start(submitter, submission)
        assert handle["start"] == "warm"
        main = await anyio.to_thread.run_sync(switchboard.next_caller)
        await ready(submitter)
    with anyio.fail_after(PATIENCE):
        while len(list((tmp_path / "home" / "warm").iterdir())) > 1:  # the replacement ends with its daemon
            await anyio.sleep(0.02)
    main.release()
    assert (await ended(submitter, handle)).exit_code == 0
    assert list((tmp_path / "home" / "warm").iterdir()) == []
    assert list((tmp_path / "home" / "logs" / "warm").iterdir()) == []


async def test_no_driver_is_started_while_a_run_is_being_started(submitter: WarmSparkSubmit, new_try: NewTry) -> None:
    may_start = [True]
    submission = new_try("")
    async with waiting(submitter, submission, may_start=lambda: may_start[0]):
        may_start[0] = False
        handle = await start(submitter, submission)
        assert (await ended(submitter, handle)).exit_code == 0
        submitter.warm.wakeup.set()
        await anyio.wait_all_tasks_blocked()
        assert submitter.warm.states == {"starting": 0, "ready": 0}
        may_start[0] = True
        await ready(submitter)


async def test_a_try_whose_driver_is_dead_starts_cold_as_the_same_try(
    submitter: WarmSparkSubmit, new_try: NewTry, tmp_path: Path
) -> None:
    submission, may_start = new_try("open('starts', 'a').write('x')"), [True]
    async with waiting(submitter, submission, may_start=lambda: may_start[0]):
        may_start[0] = False  # else one that follows it may be quicker than the try
        [folder] = (tmp_path / "home" / "warm").iterdir()
        assert signal_tagged(f"warm-{folder.name}", SIGKILL)
        handle = await start(submitter, submission)
        assert "start" not in handle
        assert (await ended(submitter, handle)).exit_code == 0
        assert (submitter.folder(submission.key).path / "work" / "starts").read_text() == "x"
        assert not folder.exists()


async def test_a_driver_is_not_used_after_one_of_its_files_has_changed(
    submitter: WarmSparkSubmit, new_try: NewTry, tmp_path: Path
) -> None:
    module = tmp_path / "module.py"
    module.write_text("WHAT = 1\n")
    submission = new_try("import module; print('WHAT', module.WHAT)", py_files=(str(module),))
    async with waiting(submitter, submission):
        [old] = (tmp_path / "home" / "warm").iterdir()
        module.write_text("WHAT = 22\n")
        handle = await start(submitter, submission)
        assert "start" not in handle
        assert not old.exists()
        assert (await ended(submitter, handle)).exit_code == 0
        assert "WHAT 22" in await log_of(submitter, handle)
        await ready(submitter)


async def test_a_run_that_needs_memory_takes_it_from_waiting_drivers(
    submitter: WarmSparkSubmit, new_try: NewTry, tmp_path: Path
) -> None:
    running = [0]
    large, other = new_try(""), new_try("")
    async with waiting(submitter, large, memory_mb=1000, warm_memory_mb=600, running_mb=lambda: running[0]):
        running[0] = 600
        instance = other.key.instance
        elsewhere = type(instance)(dag_id="other", run_id=instance.run_id, task_id=instance.task_id)
        key = type(other.key)(instance=elsewhere, task_instance_id=other.key.task_instance_id, try_number=1)
        handle = await start(submitter, type(other)(key=key, tag=other.tag, application=other.application, context={}))
        assert not list((tmp_path / "home" / "warm").iterdir()), "it is gone before the run starts"
        assert (await ended(submitter, handle)).exit_code == 0


def keep_event_logs(driver: WarmDriver) -> Path:
    """Make event logs of the driver, and one of an application with a longer name, which is returned."""
    folder = event_logs(driver.log.parents[1])
    folder.mkdir()
    (driver.folder.path / "application").write_text("local-1")
    for name in ("local-1.zstd", "local-1.inprogress", "local-12"):
        (folder / name).touch()
    return folder / "local-12"


async def test_waiting_drivers_end_with_their_daemon_and_running_ones_do_not(
    new_try: NewTry, switchboard: Switchboard, tmp_path: Path
) -> None:
    submitter = starts_warm(tmp_path / "home")
    submission = new_try("call(sys.argv[1], 'main')")
    handle = await start(submitter, submission)
    main = await anyio.to_thread.run_sync(switchboard.next_caller)
    driver = submitter.ready_driver(new_try(""))
    others = keep_event_logs(driver)
    os.close(driver.control.detach())  # as the end of a process closes it
    with anyio.fail_after(PATIENCE):
        while driver.folder.path.exists() or lives(driver.tag):
            await anyio.sleep(0.02)
    assert list(others.parent.iterdir()) == [others]
    assert not driver.log.exists()
    assert reap_left_behind(tmp_path / "home") == 0
    main.release()
    assert (await ended(submitter, handle)).exit_code == 0


async def test_the_next_start_removes_drivers_that_are_left(new_try: NewTry, tmp_path: Path) -> None:
    submitter = starts_warm(tmp_path / "home")
    driver = submitter.ready_driver(new_try(""))
    signal_tagged(driver.tag, SIGKILL, wait=True)
    assert driver.folder.path.exists()
    others = keep_event_logs(driver)
    assert reap_left_behind(tmp_path / "home") == 1
    assert list(others.parent.iterdir()) == [others]
    assert not driver.folder.path.exists()
    assert not driver.log.exists()
    driver.end()


@pytest.mark.parametrize(
    ("name", "content"),
    [("command.json", ""), ("command.json", '{"log": "/nowhere"}'), ("application", "")],
    ids=["cut off", "of an earlier version", "no name"],
)
async def test_leftovers_of_a_power_failure_or_an_earlier_release_are_removed_and_nothing_else_is(
    new_try: NewTry, tmp_path: Path, name: str, content: str
) -> None:
    driver = starts_warm(tmp_path / "home").ready_driver(new_try(""))
    signal_tagged(driver.tag, SIGKILL, wait=True)
    keep_event_logs(driver)
    hidden = event_logs(driver.log.parents[1]) / ".others.crc"
    hidden.touch()
    (driver.folder.path / name).write_text(content)
    assert reap_left_behind(tmp_path / "home") == 1
    assert not driver.folder.path.exists()
    assert hidden.exists()
    driver.end()


async def test_a_try_that_was_withdrawn_is_never_taken(new_try: NewTry, tmp_path: Path) -> None:
    """The daemon died between the offer and its message, and the message comes late all the same."""
    submitter = starts_warm(tmp_path / "home")
    submission = new_try("")
    driver = submitter.ready_driver(submission)
    folder = submitter.folder(submission.key)
    folder.make()
    assert driver._ask(folder) is False
    assert not folder.started()
    driver.end()
    with anyio.fail_after(PATIENCE):
        while lives(driver.tag):
            await anyio.sleep(0.02)
