"""Settings that all tests share: one event loop backend, hypothesis without deadlines, no credentials of the machine."""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections.abc import Iterator
from functools import cache
from hashlib import sha256
from typing import Any

import pytest
from hypothesis import settings
from xdist.scheduler import LoadScopeScheduling

from tests.effort import effort
from tests.torture.results import PROPERTY, table

EXAMPLES = effort(30, 300)
settings.register_profile("local", deadline=None, max_examples=EXAMPLES)
settings.register_profile("ci", deadline=None, max_examples=EXAMPLES, derandomize=True, print_blob=True)
settings.load_profile("ci" if os.environ.get("CI") else "local")

# A shell that starts pytest in the background ignores SIGINT. Started programs would inherit that and never stop.
signal.signal(signal.SIGINT, signal.default_int_handler)


gc.disable()  # until everything is collected


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadScopeScheduling:
    return ByFile(config, log)


class ByFile(LoadScopeScheduling):
    """Distributes tests to several workers (`make test`): a file goes to a free worker, and so does each long test."""

    def _split_scope(self, nodeid: str) -> str:
        return _shared_by(nodeid)


LONG = (
    "tests/e2e/",
    "tests/service/api/test_explained_at_random.py",
    "tests/service/scheduler/test_changed_schedules.py",
    "tests/service/spark/",
    "tests/torture/",
    "tests/upgrade/",
)
"""Where a test of its own is long, and shares nothing that takes long to make."""
SHARING = ("test_cluster.py", "test_values_in_tables.py", "test_yarn.py")
"""Files there whose tests share what takes a minute to make."""


def _shared_by(nodeid: str) -> str:
    """Return the group of tests of one worker: a file's fixtures are made once, and tests that wait run beside busy ones."""
    file = nodeid.partition("::")[0]
    if "container/" in file:
        return "container"  # they share the image that one of them builds
    if "browser/" in file:
        return "browser"  # and these a daemon with its servers, and Chromium
    return nodeid if file.startswith(LONG) and not file.endswith(SHARING) else file


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out tests of features that this tree is without, and order the others for several workers.

    Long ones come first, busy ones beside those that wait, and short ones last.
    """
    if without := [item for item in items if not _needed_by(item) <= _features()]:
        config.hook.pytest_deselected(items=without)
        items[:] = [item for item in items if item not in without]
    if "PYTEST_XDIST_WORKER" in os.environ:
        items.sort(key=_turn)


def _needed_by(item: pytest.Item) -> frozenset[str]:
    return frozenset(name for marker in item.iter_markers("feature") for name in marker.args)


@cache
def _features() -> frozenset[str]:
    """The features of this tree, which `tools/take_out.py` may have made without some."""
    import rooms  # noqa: PLC0415  a worker that collects nothing needs none

    return frozenset(rooms.Product(rooms.REPOSITORY).features)


def _turn(item: pytest.Item) -> tuple[int, bytes]:
    shared = _shared_by(item.nodeid)
    if shared.startswith("tests/unit/"):
        return 3, b""
    by_chance = sha256(shared.encode()).digest()  # the same each time
    if shared == item.nodeid:
        return 1, by_chance
    are_long = shared.startswith(LONG) or not shared.startswith("tests/")
    return 0 if are_long else 2, by_chance


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("spark") is not None:
        _class_archive()


@cache
def _class_archive() -> None:
    """Use the class archive of `make setup`, unless Java or Spark changed since. All Spark starts are quicker with it."""
    from watcher.submit.spark.class_archive import archive_folder, make_archive  # noqa: PLC0415  most tests need no Spark
    from watcher.submit.spark.runtime import find_runtime  # noqa: PLC0415

    make_archive(archive_folder(os.environ), find_runtime(sys.executable, None, os.environ), os.environ)


def pytest_collection_finish() -> None:
    """Exclude imported and collected objects, which stay to the end, from garbage collection, and have it run less often."""
    gc.enable()
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 50)


@pytest.hookimpl(trylast=True)
def pytest_unconfigure() -> None:
    """Skip pytest's second search for exceptions among the garbage."""
    gc.freeze()


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Print the results of the torture, whichever process ran it."""
    reports = [
        report for outcome in ("passed", "failed", "skipped") for report in terminalreporter.stats.get(outcome, ())
    ]
    lines = [value for report in reports for name, value in report.user_properties if name == PROPERTY]
    if lines:
        terminalreporter.section("torture")
        for line in table(lines):
            terminalreporter.write_line(line)


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="session", autouse=True)
def _no_credentials_of_this_machine() -> Iterator[None]:
    """Hide the environment and the home folder from AWS and libpq, in tests and in the programs that they start."""
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith(("AWS_", "PG", "WATCHER_SETTINGS__"))]:
            patch.delenv(name)
        patch.setenv("AWS_EC2_METADATA_DISABLED", "true")
        patch.setenv("AWS_CONFIG_FILE", os.devnull)
        patch.setenv("AWS_SHARED_CREDENTIALS_FILE", os.devnull)
        yield
