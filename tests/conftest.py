"""What every test shares: one event loop backend, hypothesis without deadlines, no credentials of the machine."""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Iterator

import pytest
from hypothesis import settings

from tests.effort import effort

EXAMPLES = effort(30, 300)
settings.register_profile("local", deadline=None, max_examples=EXAMPLES)
settings.register_profile("ci", deadline=None, max_examples=EXAMPLES, derandomize=True, print_blob=True)
settings.load_profile("ci" if os.environ.get("CI") else "local")

# A shell that starts us in the background has SIGINT ignored, and what we start would inherit that and never stop.
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """With several workers (`make test`), a file's tests share one, and so does all that has the machine to itself."""
    for item in items:
        alone = item.get_closest_marker("spark") is not None
        item.add_marker(pytest.mark.xdist_group("spark" if alone else item.path.parent.name + item.path.name))


def pytest_collection_finish() -> None:
    """What is imported and collected by now stays to the end: the garbage collector need not go through it at each turn."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="session", autouse=True)
def _no_credentials_of_this_machine() -> Iterator[None]:
    """AWS and libpq read the environment and the home folder; tests, and what they start, must not."""
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith(("AWS_", "PG", "WATCHER_SETTINGS__"))]:
            patch.delenv(name)
        patch.setenv("AWS_EC2_METADATA_DISABLED", "true")
        patch.setenv("AWS_CONFIG_FILE", os.devnull)
        patch.setenv("AWS_SHARED_CREDENTIALS_FILE", os.devnull)
        yield
