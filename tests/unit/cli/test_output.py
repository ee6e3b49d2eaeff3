"""Answers are printed for people and for programs."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from typing import Any

import pytest
from rich.cells import cell_len
from rich.console import Console
from ruamel.yaml import YAML

from watcher.cli.failures import CommandFailed
from watcher.cli.output import Show, as_csv, as_yaml
from watcher.cli.plain_text import harmless, harmless_lines, moment
from watcher.cli.rendering import render
from watcher.cli.tables import Readable, properties, sentences, table
from watcher.features.commands.assets import EVENTS
from watcher.features.commands.progress_bars import bars
from watcher.features.commands.run_progress import RunProgress
from watcher.features.commands.runs import COLUMNS as RUNS
from watcher.features.commands.store import COLUMNS as ENTRIES
from watcher.features.commands.watchers import COLUMNS as WATCHERS

RUN_ID = "asset_triggered__2026-11-20T09:00:00.123456+00:00_0a1b2c3d"
RUN = {
    "dag_id": "load_orders",
    "dag_run_id": RUN_ID,
    "state": "failed",
    "run_type": "asset_triggered",
    "partition_key": None,
    "queued_at": "2026-11-20T09:00:00.123456Z",
    "duration": 12.3456,
    "reason": "the driver ended with exit code 1: KeyError in line 12 of load_orders.py, which nobody has caught so far",
    "warning": None,
}
WATCHER = {
    "name": "orders_rows",
    "asset": "orders",
    "state": "running",
    "paused": False,
    "watermark": {"up_to": 12},
    "last_event_at": "2026-11-20T09:00:00Z",
    "error": None,
}
OVERRIDE, ESCAPE = "\u202e", "\x1b[31m"


def printed(readable: Readable, *, width: int = 80, terminal: bool = True, **how: Any) -> str:
    file = io.StringIO()
    render(readable, Console(file=file, width=width, force_terminal=terminal, **({"color_system": None} | how)))
    return file.getvalue()


def lines(readable: Readable, **how: Any) -> list[str]:
    return [line.rstrip() for line in printed(readable, **how).splitlines()]


def test_rows_that_fit_are_a_table() -> None:
    heading, line = lines(table([WATCHER], WATCHERS))
    assert heading.split() == ["watcher", "asset", "state", "watermark", "last", "event", "error"]
    assert line.split()[:4] == ["orders_rows", "orders", "●", "running"]
    assert "2026-11-20 09:00:00Z" in line


def test_rows_that_do_not_fit_take_a_few_lines_with_whole_ids() -> None:
    shown = lines(table([RUN, RUN], RUNS))
    assert shown[0] == f"load_orders  {RUN_ID}"
    assert shown[1] == "    state: ✗ failed  queued: 2026-11-20 09:00:00Z  made: by events"
    assert shown[2] == "    seconds: 12.3"
    assert shown[3].startswith("    reason: the driver ended")
    assert shown[: len(shown) // 2] * 2 == shown


def test_one_long_name_takes_lines_of_its_own_and_leaves_the_others_a_table() -> None:
    long = "orders_" * 24
    rows = [WATCHER, WATCHER | {"name": long, "state": "failing"}, WATCHER | {"name": "returns_rows"}]
    heading, first, its_ids, its_state, last = lines(table(rows, WATCHERS))
    assert (heading.split()[0], first.split()[0], last.split()[0]) == ("watcher", "orders_rows", "returns_rows")
    assert (its_ids, its_state) == (
        f"{long}  orders",
        '    state: ✗ failing  watermark: {"up_to": 12}  last event: 2026-11-20 09:00:00Z',
    )
    assert heading.index("state") == first.index("●") == last.index("●")


def test_an_empty_table_says_what_will_be_there() -> None:
    for terminal in (True, False):
        assert lines(table([], WATCHERS, "no watcher is configured"), terminal=terminal) == ["no watcher is configured"]
    assert lines(table([], WATCHERS))[0].split()[0] == "watcher"


def test_an_event_is_words_and_its_ids_are_whole() -> None:
    extra = {
        "watcher": "orders_files",
        "count": 2,
        "files": [{"key": "orders/1.json", "size": 9}, {"key": "orders/2.json", "size": 1}],
    }
    runs = [{"dag_id": "load_orders", "run_id": RUN_ID}]
    event = {
        "id": 7,
        "name": "orders",
        "timestamp": "2026-11-20T09:00:00Z",
        "source_watcher": "orders_files",
        "partition_key": None,
    }
    shown = "\n".join(lines(table([event | {"extra": extra, "created_dagruns": runs}], EVENTS)))
    assert "brings: 2 files, 10 bytes: orders/1.json and 1 more" in shown
    assert RUN_ID in shown
    assert "{" not in shown


def test_marks_are_for_terminals() -> None:
    assert "●" not in printed(table([WATCHER], WATCHERS), terminal=False)
    assert "● running" in printed(table([WATCHER], WATCHERS))
    assert printed(properties({"state": "paused"}, {"state": "state"})) == "state  ‖ paused\n"


@pytest.mark.parametrize("width", [40, 60, 80, 100, 200])
def test_only_a_single_word_may_be_wider_than_the_terminal(width: int) -> None:
    for line in lines(table([RUN, WATCHER | RUN], RUNS), width=width):
        assert cell_len(line) <= width or RUN_ID in line
        assert (RUN_ID in line) or RUN_ID[:20] not in line, "an id is in one piece"


def test_a_pipe_gets_each_row_in_one_line() -> None:
    heading, line = lines(table([RUN], RUNS), terminal=False)
    assert heading.split() == [*RUNS]
    assert RUN["reason"] in line


def test_a_long_text_is_cut_for_people() -> None:
    entry = {"key": "k", "value": "x" * 60_000, "version": 1, "updated_at": None, "last_updated_by": None}
    assert 300 < len(printed(table([entry], ENTRIES))) < 500


def test_a_sentence_is_shown_to_its_end() -> None:
    finding = {"message": "the source changed " * 40, "remedy": f"decide: {'x' * 400} `watcher rewind`"}
    assert "`watcher rewind`" in printed(table([finding], sentences(finding="message", remedy="remedy")))


def test_states_are_coloured_on_a_terminal_unless_colours_are_switched_off(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "\x1b[32m● running" in printed(table([WATCHER], WATCHERS), color_system="standard")
    assert "\x1b[31m✗ failed" in printed(table([RUN], RUNS), color_system="standard")
    assert "\x1b" not in printed(table([WATCHER], WATCHERS), terminal=False, color_system="auto")
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[3" not in printed(table([WATCHER], WATCHERS), color_system="standard")


def test_properties_wrap_between_words_beside_their_names() -> None:
    first, second, third = lines(properties({"error": "one two three " * 7, "link": "http://" + "x" * 90}))
    assert (first.startswith("error  one"), second.startswith("       ")) == (True, True)
    assert third == "link   http://" + "x" * 90


@pytest.mark.parametrize("terminal", [True, False])
def test_foreign_text_never_reaches_the_terminal_as_a_control_sequence(terminal: bool) -> None:
    evil = f"a{OVERRIDE}b{ESCAPE}c\rd\u200be\x9bf\U000e0041g\nh[red]i"
    shown = printed(table([RUN | {"dag_id": evil, "reason": evil}], RUNS), terminal=terminal)
    shown += printed(properties({evil: evil}), terminal=terminal) + printed(evil, terminal=terminal)
    assert not {"\u202e", "\x1b", "\r", "\u200b", "\x9b", "\U000e0041"} & set(shown)
    assert r"a\u202eb\u001b[31mc\u000dd\u200be\u009bf\U000e0041g\nh[red]i" in shown.replace("\n", "")


def test_lines_keep_their_ends() -> None:
    assert harmless("a\nb\tc") == r"a\nb\tc"
    assert harmless_lines(f"a\nb\tc{OVERRIDE}") == "a\nb\tc\\u202e"
    assert harmless("Zürich 東京 ✓") == "Zürich 東京 ✓"


def test_times_are_printed_to_the_second() -> None:
    assert moment("2026-11-20T09:00:00.123456Z") == "2026-11-20 09:00:00Z"
    assert moment("2026-11-20T09:00:00+00:00") == "2026-11-20 09:00:00Z"
    assert (moment(None), moment("now")) == (None, "now")


DATA = [
    {"name": f"a{OVERRIDE}", "count": 1, "paused": False, "extra": {"ü": [1, None]}, "text": "007"},
    {"name": "yes", "more": 0.5, "text": "1\n2"},
]


def test_yaml_holds_exactly_what_json_holds() -> None:
    text = as_yaml(DATA)
    assert text.isascii()
    assert YAML(typ="safe", pure=True).load(text) == DATA


def test_csv_has_a_column_for_each_name() -> None:
    first, second = csv.DictReader(io.StringIO(as_csv(DATA)))
    assert first == {
        "name": r"a\u202e",
        "count": "1",
        "paused": "false",
        "extra": '{"\\u00fc": [1, null]}',
        "text": "007",
        "more": "",
    }
    assert (second["text"], second["more"], second["count"]) == (r"1\n2", "0.5", "")
    assert as_csv({"a": 1}) == "a\n1\n"
    assert as_csv([]) == "\n"


RECORDS = [{"event": "a", "timestamp": "t", "level": "info", "n": 1}, {"event": f"b{OVERRIDE}"}]


@pytest.mark.parametrize(
    ("form", "read"),
    [
        ("json", lambda text: [json.loads(line) for line in text.splitlines()]),
        ("yaml", lambda text: YAML(typ="safe", pure=True).load(text)),
        ("csv", lambda text: [row["event"] for row in csv.DictReader(io.StringIO(text))]),
        ("table", str.splitlines),
    ],
)
def test_records_are_printed_as_they_come(
    form: Any, read: Callable[[str], Any], capsys: pytest.CaptureFixture[str]
) -> None:
    write = Show(form=form).stream(lambda record: record["event"])
    for record in RECORDS:
        write(record)
    told = {"csv": ["a", r"b\u202e"], "table": ["a", r"b\u202e"]}
    assert read(capsys.readouterr().out) == told.get(form, RECORDS)


def test_only_one_output_format_may_be_chosen() -> None:
    assert [Show.of(*asked).form for asked in ((None, False), (None, True), ("json", True), ("csv", False))] == [
        "table",
        "json",
        "json",
        "csv",
    ]
    with pytest.raises(CommandFailed, match="exclude each other"):
        Show.of("yaml", True)


def progress(**of: Any) -> RunProgress:
    usual = {"dag_id": "load_orders", "dag_run_id": RUN_ID, "state": "running", "try_number": 2}
    return RunProgress(**{**usual, "tasks_done": 12, "tasks": 40, "detail": None, **of})


def test_runs_have_bars_beside_their_whole_ids() -> None:
    file = io.StringIO()
    with bars(Console(file=file, width=80, force_terminal=True, color_system=None)) as display:
        display([])
        display([progress(), progress(dag_run_id=f"b{OVERRIDE}", state="queued", tasks=None, detail="waits")])
        display([progress(state="success", tasks_done=40)])
    text = file.getvalue()
    assert "no run is queued or running" in text
    assert f"load_orders  {RUN_ID}" in text
    assert r"b\u202e" in text
    for words in ("12 of 40 tasks", "try 2", "waits", "40 of 40 tasks", "success"):
        assert words in text


def test_a_change_of_a_run_is_a_line() -> None:
    assert str(progress()) == f"load_orders  {RUN_ID}  running  try 2  12 of 40 tasks"
    assert str(progress(try_number=1, tasks=None, detail="waits")) == f"load_orders  {RUN_ID}  running  waits"
