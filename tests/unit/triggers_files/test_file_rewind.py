"""Where `watcher rewind NAME --to …` leads a watcher of files."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.triggers_files.dict_host import DictHost
from tests.unit.triggers_files.simulated_bucket import SimulatedPage, SimulatedVersion
from triggers.base import StoredPosition, TriggerContext
from triggers.errors import ConfigurationError
from triggers.file_scan.scanner import Algorithm, Scanner, Strict, Window
from triggers.file_scan.versions import SECOND, parse_moment
from triggers.local_folder.new_files import FileNewFiles, FileNewFilesOptions

TIME = "2026-11-20T09:00:00Z"
T = parse_moment(TIME)


def version(key: str, modified: int) -> SimulatedVersion:
    return SimulatedVersion(key=key, number=0, modified=modified, visible=modified)


CLOCK = T + 3600 * SECOND
LISTED = [version("at", T), version("new", T + 60 * SECOND), version("old", T - 60 * SECOND)]


def page(*versions: SimulatedVersion, clock: int = CLOCK) -> SimulatedPage:
    return SimulatedPage(clock=clock, last=None, listed=sorted(versions, key=lambda version: version.key))


class Rewound:
    """A watcher that had handled everything, was rewound, and looks again."""

    def __init__(self, algorithm: type[Algorithm], to: str) -> None:
        self.make = (lambda: Window(86_400 * SECOND)) if algorithm is Window else Strict
        self.host = DictHost()
        self.look()
        assert len(self.host.rows) == 3
        trigger = FileNewFiles(FileNewFilesOptions(path="/"), None, TriggerContext(watcher="w"))
        self.host.commit(trigger.rewound(self.host.stored, to))

    def look(self, *more: SimulatedVersion, clock: int = CLOCK) -> list[str]:
        scanner = Scanner(self.make(), self.host.stored, start="all", min_age=0, now=0)
        step = scanner.advance(page(*LISTED, *more, clock=clock), now=0)
        if step.position is not None:
            self.host.commit(step.position)
        return [found.key for found in step.versions]  # type: ignore[attr-defined]


@pytest.mark.parametrize("algorithm", [Window, Strict])
@pytest.mark.parametrize(
    ("to", "expected"),
    [
        ("start", ["at", "new", "old"]),
        (TIME, ["at", "new"]),
        ("2026-11-20T10:00:00+01:00", ["at", "new"]),
        ("2026-11-20", ["at", "new", "old"]),
        ("now", []),
    ],
)
def test_what_comes_again(algorithm: type[Algorithm], to: str, expected: list[str]) -> None:
    watcher = Rewound(algorithm, to)
    assert watcher.host.rows == {}
    assert watcher.look() == expected
    assert watcher.look(clock=CLOCK + SECOND) == [], "once"


@pytest.mark.parametrize("algorithm", [Window, Strict])
def test_what_comes_after_a_rewind_to_now(algorithm: type[Algorithm]) -> None:
    watcher = Rewound(algorithm, "now")
    watcher.look()
    assert watcher.look(version("later", CLOCK), clock=CLOCK + SECOND) == ["later"]


def test_the_watermark_says_where_it_goes_on(tmp_path: Path) -> None:
    trigger = FileNewFiles(FileNewFilesOptions(path=str(tmp_path)), None, TriggerContext(watcher="w"))
    assert trigger.rewound(None, TIME).watermark == {"up_to": None, "horizon": TIME, "seen": 0, "scan": None}
    stored = StoredPosition(state={"anything": 1}, rows={1: 1})
    assert trigger.rewound(stored, "now").rows.clear


@pytest.mark.parametrize("to", ["yesterday", "", "17", "all"])
def test_a_place_that_is_none_is_told_how_to_write_one(to: str) -> None:
    trigger = FileNewFiles(FileNewFilesOptions(path="/"), None, TriggerContext(watcher="w"))
    with pytest.raises(ConfigurationError, match="write now, start, or an ISO timestamp"):
        trigger.rewound(None, to)
