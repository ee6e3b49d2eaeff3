"""What shipped triggers store, byte for byte: a new release must go on from where the last one stood."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from store.values import to_json
from triggers.base import Position, StoredPosition, TriggerContext
from triggers.changes.log_position import LogPosition
from triggers.changes.options import ChangesOptions
from triggers.changes.trigger import PostgresChanges
from triggers.file_scan.matching import Matcher
from triggers.file_scan.rules.modes import Algorithm, StrictAlgorithm, WindowAlgorithm
from triggers.file_scan.scanner import Scanner
from triggers.file_scan.state.scan_state import ScanState, Start
from triggers.file_scan.versions import parse_moment
from triggers.local_folder.folder import FolderFile
from triggers.local_folder.new_files import FileNewFiles, FileNewFilesOptions
from triggers.postgres.by_id.reader import RowsByIdReader
from triggers.postgres.by_update.reader import RowsByUpdateReader
from triggers.postgres.catalog.facts import TableFacts
from triggers.postgres.connection import PostgresConnection
from triggers.postgres.new_rows import NewRows
from triggers.postgres.options import NewRowsOptions
from triggers.postgres.reading.reader import Reader
from triggers.postgres.server.session import Server
from triggers.postgres.table.examined_table import ExaminedTable
from triggers.postgres.table.watched_table import WatchedTable
from triggers.s3.connection import S3Connection
from triggers.s3.new_files import S3NewFiles, S3NewFilesOptions
from triggers.s3.objects import S3Object, Selection
from watcher.triggerer.committing import identity_json

HOUR = 3_600_000_000
BEGAN = parse_moment("2026-11-20T09:00:00.000001Z")
FILE = FolderFile(
    key="a.json", path="/in/a.json", inode=17, size=5, written_ns=1_795_164_000_123_456_789, modified=BEGAN - HOUR // 2
)
OBJECT = (b"orders/a%20b.json", b"2026-11-20T09:00:00.000Z", b"&quot;0cc175b9c0f1b6a831c399e269772661&quot;", b"12")


@dataclass(frozen=True, kw_only=True)
class OnePage:
    """A page that lists `files`; the scan goes on behind `last`."""

    last: str | None
    files: Sequence[FolderFile] = ()
    clock: int = BEGAN
    is_clock_believed: bool = True

    def __len__(self) -> int:
        return len(self.files)

    def versions(self, since: int | None) -> Iterable[FolderFile]:
        del since
        return self.files

    def fingerprints(self) -> Sequence[int]:
        return [file.fingerprint for file in self.files]

    def moments(self) -> Sequence[int]:
        return [file.modified for file in self.files]

    def version(self, index: int, fingerprint: int) -> FolderFile:
        del fingerprint
        return self.files[index]


IN_A_SCAN = (
    '{"horizon": %s, "baseline": %s, "began": "2026-11-20T09:00:00.000001Z", "next_horizon": %s, '
    '"cursor": "a.json", "up_to": null}'
)
BETWEEN_SCANS = (
    '{"horizon": %s, "baseline": null, "began": null, "next_horizon": null, "cursor": null, '
    '"up_to": "2026-11-20T08:59:58.000001Z"}'
)
CLOCK, WINDOW, GIVEN = '"2026-11-20T09:00:00.000001Z"', '"2026-11-20T07:59:59.000001Z"', '"2026-11-20T08:00:00Z"'


@pytest.mark.parametrize(
    ("algorithm", "start", "in_a_scan", "between_scans"),
    [
        (WindowAlgorithm(HOUR), "now", IN_A_SCAN % ("null", CLOCK, WINDOW), BETWEEN_SCANS % WINDOW),
        (WindowAlgorithm(HOUR), "all", IN_A_SCAN % ("null", "null", WINDOW), BETWEEN_SCANS % WINDOW),
        (WindowAlgorithm(HOUR), GIVEN, IN_A_SCAN % (GIVEN, "null", GIVEN), BETWEEN_SCANS % GIVEN),
        (StrictAlgorithm(), "now", IN_A_SCAN % ("null", CLOCK, "null"), BETWEEN_SCANS % "null"),
        (StrictAlgorithm(), "all", IN_A_SCAN % ("null", "null", "null"), BETWEEN_SCANS % "null"),
        (StrictAlgorithm(), GIVEN, IN_A_SCAN % ("null", GIVEN, "null"), BETWEEN_SCANS % "null"),
    ],
)
def test_positions_of_the_file_triggers(algorithm: Algorithm, start: str, in_a_scan: str, between_scans: str) -> None:
    begin: Start = start if start in {"now", "all"} else parse_moment(start.strip('"'))  # type: ignore[assignment]
    scanner = Scanner(algorithm, None, start=begin, min_age=2_000_000, now=0.0)
    first = scanner.advance(OnePage(last="a.json", files=[FILE]), now=100.0).position
    assert first is not None
    assert to_json(first.state) == in_a_scan
    assert first.rows.insert == {2440712889518271375: BEGAN - HOUR // 2}
    second = scanner.advance(OnePage(last=None), now=200.0).position
    assert second is not None
    assert to_json(second.state) == between_scans
    for text, position in ((in_a_scan, first), (between_scans, second)):
        assert to_json(ScanState.from_json(dict(position.state)).to_json()) == text


def test_names_of_file_versions() -> None:
    assert FILE.fingerprint == 2440712889518271375
    assert FILE.aliases[-1] == -2227854324308715523, "up to format 2"
    selection = Selection(
        bucket="b", prefix="orders/", matcher=Matcher.of(match=None, regex=None), min_size=0, directory_markers=False
    )
    name = selection.fingerprint(OBJECT, url_encoded=True)
    assert name == 8323809274407621003
    [former] = S3Object(OBJECT, name, bucket="b", url_encoded=True).aliases
    assert former == 3250343587478389584, "up to format 2"


BY_ID = (
    '{"m": 120, "gaps": [[7, 9, 0], [12, 12, 1]], "groups": {"0": ["4/17"], "1": ["-1/733", "4/17"]}, '
    '"new": [[118, 119]], "boot": "2026-11-01 00:00:00+00", "holders": {"-1/733": [null, "2026-11-20T08:00:00Z"], '
    '"4/17": [4711, "2026-11-20T09:00:00Z"]}, "timeline": 3}'
)
BY_UPDATE = (
    '{"xmin": 740, "floor": "2026-11-20T08:59:59.000000Z", "checkpoints": [["2026-11-20T09:00:00.000000Z", ["-1/733", '
    '"4/17"]]], "boot": "2026-11-01 00:00:00+00", "files": -12, "until": "2026-11-20T09:00:00.000000Z", "timeline": 3}'
)
MODES: dict[str, tuple[type[Reader[Any]], str, dict[int, int], str]] = {
    "id": (
        RowsByIdReader,
        BY_ID,
        {},
        (
            '{"up_to": 120, "gaps": 3, "open_ids": 6, '
            '"oldest": {"transaction": "-1/733", "pid": null, "since": "2026-11-20T08:00:00Z"}}'
        ),
    ),
    "updated_at": (
        RowsByUpdateReader,
        BY_UPDATE,
        {741: 741},
        '{"up_to": "2026-11-20T09:00:00.000000Z", "floor": "2026-11-20T08:59:59.000000Z", "seen": 1, "oldest": null}',
    ),
}
FACTS = TableFacts(
    table_oid=16_385,
    database_oid=5,
    server_version=180_000,
    role="reader",
    kind="r",
    persistence="p",
    not_null=True,
    type="bigint",
    relations=[16_385],
    children=0,
    has_index=True,
    is_unique=True,
    is_unique_per_partition=True,
    defaults=[],
    subscribed=False,
    has_update_trigger=True,
    notifies=False,
    sequences=[],
    primary_key=["id"],
    columns={"id": "bigint", "updated_at": "timestamp with time zone"},
)
SERVER = Server(system_identifier="7380000000000000001", timeline=3, boot="2026-11-01 00:00:00+00")


@pytest.fixture
async def new_rows(mode: str) -> Any:
    """The trigger as it is after its start-up checks, on a connection that was never used."""
    options = NewRowsOptions.model_validate({"table": "orders", "mode": mode, "where": "total > 0"})
    async with PostgresConnection(host="localhost").open() as client:
        trigger = NewRows(options, client, TriggerContext(watcher="orders_rows"))
        lane = client.lane("orders_rows", options.lock_timeout, is_alone=False)
        table = WatchedTable(options=options, facts=FACTS, client=client, session=lane, server=SERVER)
        trigger._examiner._table = table
        yield trigger


@pytest.mark.parametrize("mode", MODES)
async def test_positions_of_postgres_new_rows(mode: str, new_rows: NewRows) -> None:
    reader, state, rows, watermark = MODES[mode]
    stored = StoredPosition(state=json.loads(state), rows=rows)
    position = reader.resume(new_rows._examiner.table, stored).progress.position()
    assert position.state == {**json.loads(state), "chunk": 0}  # the first chunk of what is kept of its batches
    assert to_json(position.watermark) == watermark


@pytest.mark.parametrize("mode", MODES)
async def test_a_rewind_to_now_of_postgres_new_rows(new_rows: NewRows) -> None:
    position: Position = new_rows.rewound(None, "now")
    assert to_json(position.state) == '{"begin": "now"}'


@pytest.mark.parametrize(("mode", "column"), [("id", "id"), ("updated_at", "updated_at")])
async def test_the_identity_of_a_table(new_rows: NewRows, mode: str, column: str) -> None:
    assert identity_json(new_rows.source_identity()) == (
        f'{{"column": "{column}", "database": 5, "mode": "{mode}", "system_identifier": "7380000000000000001", '
        '"table": 16385, "trigger": "postgres.new_rows", "where": "total > 0"}'
    )


LOG = (
    '{"slot": "watcher_a0d4c6f1b2e3", "position": ["0/16B3740", "0/16B3810", 2], "last": ["0/16B3700", 741, '
    '"2026-11-20T09:00:00.123456+00:00"], "part": ["0/16B3810", 742, "2026-11-20T09:00:01+00:00"], "timeline": 3, '
    '"shape": {"the publication": "0123456789ab"}}'
)
"""The state of `postgres.changes`, also where it is written `postgres.new_rows` with `mode: log`."""


@pytest.fixture
async def changes() -> AsyncIterator[PostgresChanges]:
    """The trigger as it is after its start-up checks, on a connection that was never used."""
    options = ChangesOptions.model_validate({"table": "orders", "columns": ["id"]})
    async with PostgresConnection(host="localhost").open() as client:
        trigger = PostgresChanges(options, client, TriggerContext(watcher="orders_log", installation="here"))
        lane = client.lane("orders_log", options.lock_timeout, is_alone=False)
        trigger._examiner._table = ExaminedTable(
            options=options, facts=FACTS, client=client, session=lane, server=SERVER
        )
        yield trigger


async def test_positions_of_postgres_changes(changes: PostgresChanges) -> None:
    reader, state = changes._reader, json.loads(LOG)
    reader._slot.name, reader._published.shape = state["slot"], state["shape"]
    position = reader._position(changes._examiner.table, LogPosition.from_state(state))
    assert to_json(position.state) == LOG
    assert to_json(position.watermark) == '{"up_to": "0/16B3810"}'


async def test_a_rewind_to_now_of_postgres_changes(changes: PostgresChanges) -> None:
    rewound = changes.rewound(StoredPosition(state=json.loads(LOG)), "now")
    assert to_json(rewound.state) == '{"begin": "now", "slot": "watcher_a0d4c6f1b2e3"}'
    assert rewound.is_final
    assert to_json(changes.rewound(None, "now").state) == '{"begin": "now", "slot": "watcher_3a4ad49b35fe"}'


async def test_the_identity_of_a_table_whose_changes_are_read(changes: PostgresChanges) -> None:
    assert identity_json(changes.source_identity()) == (
        '{"database": 5, "mode": "log", "system_identifier": "7380000000000000001", "table": 16385, '
        '"trigger": "postgres.new_rows"}'
    )
    assert PostgresChanges.format == NewRows.format == 2


@pytest.mark.parametrize("mode", ["window", "strict"])
def test_the_identity_of_a_folder(mode: str) -> None:
    options = FileNewFilesOptions.model_validate({"path": "/in/", "match": "*.json", "mode": mode})
    trigger = FileNewFiles(options, None, TriggerContext(watcher="inbox"))
    assert identity_json(trigger.source_identity()) == (
        '{"match": "*.json", "min_size": 0, "path": "/in", "regex": null, "trigger": "file.new_files"}'
    )


@pytest.mark.parametrize("mode", ["window", "strict"])
async def test_the_identity_of_a_prefix(mode: str) -> None:
    options = S3NewFilesOptions.model_validate({"bucket": "landing", "prefix": "orders/", "mode": mode, "min_size": 1})
    async with S3Connection(endpoint_url="http://localhost:9000/").open() as client:
        trigger = S3NewFiles(options, client, TriggerContext(watcher="orders"))
        assert identity_json(trigger.source_identity()) == (
            '{"bucket": "landing", "endpoint": "http://localhost:9000", "match": null, "min_size": 1, '
            '"prefix": "orders/", "regex": null, "trigger": "s3.new_files"}'
        )
