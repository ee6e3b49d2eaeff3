"""Commands import only what they need: the API alone takes a second."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.feature("commands")

ROOT = Path(__file__).parents[3]
LIGHT = {
    "watcher.cli.app": "sqlalchemy",
    "watcher.cli.database": "fastapi",
    "config.reading.settings_loader": "config.models.jobs",
    "config.reading.loader": "javaproperties",
    "watcher.app": "aiohttp",
    "triggers.s3.new_files": "aiohttp",
    "triggers.s3.connection": "aiobotocore",
    "watcher.submit.spark_submit": "sqlalchemy",
    "watcher.configuration.source_checks": "aiobotocore",
    "watcher.configuration.left_slots": "asyncpg",
    "watcher.triggerer.control": "prometheus_client",
}


@pytest.mark.parametrize(("module", "heavy"), LIGHT.items(), ids=LIGHT)
def test_a_command_imports_nothing_that_it_does_not_need(module, heavy):
    program = f"import sys, {module}; sys.exit({heavy!r} in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_a_command_hardly_collects_garbage_while_it_imports():
    program = (
        "import atexit, gc, sys; "
        "atexit.register(lambda: print(sum(each['collections'] for each in gc.get_stats()), gc.get_freeze_count(), file=sys.stderr)); "
        "sys.argv = ['watcher', 'check', '-c', 'examples/quickstart/watchers.yaml']; from watcher.guard import main; main()"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    searches, left_alone = map(int, done.stderr.split())
    assert searches < 60, "with 700 allocations from one to the next it would be some three hundred"
    assert left_alone > 60_000, "Python searches what is not left alone several times before it ends"


def test_optional_imports_of_libraries_are_left_out():
    program = (
        "import atexit, sys; "
        "atexit.register(lambda: print(*{'click', 'pygments', 'rich.pretty'} & sys.modules.keys(), file=sys.stderr)); "
        "sys.argv = ['watcher', 'check', '-c', 'examples/quickstart/watchers.yaml']; from watcher.guard import main; main()"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stderr.split() == []


def test_a_command_that_opens_the_database_imports_no_orm_no_logging_and_no_other_tables():
    program = (
        "import sys; from watcher.host.lean_imports import import_leanly; import_leanly(); "
        "import watcher.cli.database, store.processes.audit, store.processes.tokens; "
        "print(*{'sqlalchemy.orm', 'sqlalchemy.dialects.postgresql', 'store.database.schema', 'structlog', 'triggers.postgres'} & sys.modules.keys()); "
        "from sqlalchemy.ext.asyncio import AsyncSession, async_scoped_session, session; "
        "print(AsyncSession.__module__, async_scoped_session.__module__, session.AsyncSession is AsyncSession)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    names = "sqlalchemy.ext.asyncio.session sqlalchemy.ext.asyncio.scoping True"
    assert done.stdout.splitlines() == ["", names]
