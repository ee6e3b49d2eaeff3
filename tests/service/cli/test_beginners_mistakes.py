"""The mistakes of a first hour: each has one sentence, which names the place, what is wrong there, and what to do.

The sentences about servers (tables, buckets, Java, passwords) are tried with servers in `tests/service/problems`.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from watcher.cli.app import app
from watcher.cli.program import program

CONFIGURATION = """\
version: 1

settings:
  home: home

connections:
  lake:
    type: s3
    region: eu-central-1
  shop:
    type: postgres
    dsn: ${SHOP_DSN}

assets:
  inbox:
    watchers:
      inbox_files:
        trigger: file.new_files
        path: inbox
        match: "*.csv"
        interval: 10s
        start: all
  landing:
    uri: s3://my-bucket/orders/
    watchers:
      landing_files:
        trigger: s3.new_files
        connection: lake
  customers:
    uri: postgres://shop/shop/public/customers
    watchers:
      customers_rows:
        trigger: postgres.new_rows
        connection: shop
  orders: {}

jobs:
  load_orders:
    schedule: inbox
    outlets: [orders]
    retries: 3
    spark:
      application: load_orders.py
  ingest_orders:
    schedule: landing
    outlets: [orders]
    spark:
      application: builtin:ingest
      connections: [lake]
      options:
        target: tables/orders
"""
IN_FILE = {
    "a section misspelt": ("\nassets:", "\nasets:", "14: asets: ", "did you mean `assets`?"),
    "an option misspelt": ("match:", "mtach:", "20: assets.inbox.watchers.inbox_files.mtach: ", "did you mean `match`?"),
    "a trigger misspelt": ("file.new_files", "file.new_file", "18: ", "did you mean `file.new_files`?"),
    "no trigger": ("        trigger: file.new_files\n", "", "17: ", "must name a trigger", "known: `file.new_files`"),
    "a connection misspelt": ("connection: lake", "connection: lkae", "28: ", "`lkae`; did you mean `lake`?"),
    "no connection": ("        connection: lake\n", "", "26: ", "needs a connection of type `s3`; known: `lake`"),
    "an unknown asset in a schedule": ("schedule: inbox", "schedule: inbxo", "39: ", "did you mean `inbox`?"),
    "an unknown outlet": ("[orders]\n    retries", "[order]\n    retries", "40: ", "did you mean `orders`?"),
    "a tab": ("  home: home", "\thome: home", "4: is not valid YAML", "indent by spaces here, not by a tab"),
    "no space behind a colon": ("path: inbox", "path:inbox", "20: is not valid YAML", "put a space behind the colon", "line above"),
    "a pattern without quotes": ('"*.csv"', "*.csv", "20: is not valid YAML", "put quotes around the text that begins with `*`"),
    "a key twice": ("start: all\n", "start: all\n        start: now\n", "23: ", "defined twice", "22; remove one"),
    "a duration without a unit": ("interval: 10s", "interval: 10", "21: ", "a whole number and its unit, like 500ms, 10s", "with its unit: write `10s`, `10m`"),
    "a duration in words": ("interval: 10s", "interval: 10 seconds", "21: ", "a whole number and its unit, like 500ms, 10s", "write `10s`"),
    "an unknown start": ("start: all", "start: beginning", "22: ", "write now, all, or an ISO timestamp"),
    "a schedule in words": ("schedule: inbox", 'schedule: {cron: "every day"}', "39: ", 'write five fields such as "0 * * * *"'),
    "a program that is not there": ("load_orders.py", "laod_orders.py", "43: ", "no such file; relative paths start at"),
    "no program": ("    spark:\n      application: load_orders.py\n", "", "38: jobs.load_orders.spark: is missing; add it"),
    "no version": ("version: 1\n", "", "version: is missing; add it"),
    "another tool's version": ("version: 1", 'version: "3.8"', "1: version: must be 1"),
    "a variable that is not set": ("SHOP_DSN", "SHOP_DNS", "12: ", "SHOP_DNS is not set; set it, or write `${SHOP_DNS:-default}`"),
    "another database's address": ("${SHOP_DSN}", "mysql://me@db/shop", "12: ", "write the dsn as postgresql://user:password@host"),
    "an address without a bucket": ("s3://my-bucket/orders/", "s3:///orders/", "24: ", "write `s3://bucket/prefix/`"),
    "an address without a table": ("//shop/shop/public/customers", "//shop", "30: ", "`postgres://host/database/schema/table`"),
    "a target that is no place": ("      options:\n        target: tables/orders\n", "", "46: ", "or set spark.options.target"),
    "a name in place of a list": ("[orders]\n    retries", "orders\n    retries", "40: ", "must be a list of asset names"),
    "several names in one text": ("schedule: inbox", "schedule: inbox & landing", "39: ", "write the list `[inbox, landing]`"),
    "several names in words": ("schedule: inbox", "schedule: inbox and landing", "39: ", "write the list `[inbox, landing]`"),
    "several names with commas": ("schedule: inbox", "schedule: inbox, landing", "39: ", "write the list `[inbox, landing]`"),
    "several names with blanks": ("schedule: inbox", "schedule: inbox landing", "39: ", "write the list `[inbox, landing]`"),
    "either of two in one text": ("schedule: inbox", "schedule: inbox | landing", "39: ", "write `{any: [inbox, landing]}`"),
    "`and` for `all`": ("schedule: inbox", "schedule: {and: [inbox, landing]}", "39: ", "did you mean `all`?"),
    "`AND` for `all`": ("schedule: inbox", "schedule: {AND: [inbox, landing]}", "39: ", "did you mean `all`?"),
    "`all_of` for `all`": ("schedule: inbox", "schedule: {all_of: [inbox, landing]}", "39: ", "did you mean `all`?"),
    "`or` for `any`": ("schedule: inbox", "schedule: [landing, {or: [inbox, customers]}]", "39: ", "did you mean `any`?"),
    "`not` in a condition": ("schedule: inbox", "schedule: {not: inbox}", "39: ", "name only what the job needs"),
    "a comparison": (
        "schedule: inbox", 'schedule: {asset: inbox, where: {extra.count: "> 5"}}', "39: ", "compared for equality", "`>` is no comparison",
    ),
    "a comparison as a mapping": (
        "schedule: inbox", "schedule: {asset: inbox, where: {extra.count: {gt: 5}}}", "39: ", "compared for equality", "`gt` is no comparison",
    ),
    "a type that is none": (
        "        target: tables/orders", "        target: tables/orders\n        schema: 'id longg, x'", "schema: ", "`longg`, the type of `id`",
        "did you mean `long`?", "`x` has no type",
    ),
    "a pattern with the folder": ('"*.csv"', "/data/in/*.csv", "17: ", "below the watched folder", "write `*.csv`"),
    "a pattern from here": ('"*.csv"', "./*.csv", "17: ", "below the watched folder", "write `*.csv`"),
    "a pattern with the bucket": (
        "        connection: lake\n", '        connection: lake\n        match: "s3://my-bucket/orders/*.csv"\n', "26: ", "below the watched prefix",
        "write `*.csv`",
    ),
    "a uri without a scheme": (
        "  inbox:\n    watchers:\n      inbox_files:\n        trigger: file.new_files\n        path: inbox\n",
        "  inbox:\n    uri: inbox\n    watchers:\n      inbox_files:\n        trigger: file.new_files\n",
        "18: assets.inbox.watchers.inbox_files.path: is missing: write `path: inbox` here", "`uri: file:///…/inbox`",
    ),
    "a trigger of another name": ("file.new_files", "folder.new_files", "18: ", "there is no `folder.new_files`; did you mean `file.new_files`?"),
    "a trigger in one word": ("s3.new_files", "s3.newfiles", "27: ", "there is no `s3.newfiles`; did you mean `s3.new_files`?"),
    "a time without a zero": ("  orders: {}", "  orders: {expect_by: 6:00}", "35: ", 'write "06:00"'),
    "a time as a number": ("  orders: {}", "  orders: {expect_by: {by: 360}}", "35: ", 'write "06:00"'),
    "a time in a deadline": ("    retries: 3", "    retries: 3\n    deadline: {by: 7am}", "42: ", 'write "07:00"'),
    "a time for a duration": ("    retries: 3", '    retries: 3\n    deadline: "07:00"', "42: ", '`{by: "07:00"}`'),
    "memory without a unit": ("    spark:\n      application: load", "    spark:\n      driver_memory: 2\n      application: load", "43: ", "write `2g`"),
    "memory in megabytes": ("    spark:\n      application: load", "    spark:\n      executor_memory: 2048\n      application: load", "43: ", "write `2048m`"),
    "a duration as a number": ("  orders: {}", "  orders: {expect_every: 24}", "35: ", "with its unit: write `24s`, `24m`, `24h` or `24d`"),
    "a duration as words": ("  orders: {}", "  orders: {expect_every: 1 day}", "35: ", "write `1d`"),
    "a number of MB with a unit": ("version: 1\n", "version: 1\nsettings: {scheduler: {memory_mb: 2g}}\n", "2: ", "write `2048`, in MB"),
    "a number of days with a unit": ("version: 1\n", "version: 1\nsettings: {store: {run_retention_days: 90d}}\n", "2: ", "write `90`, in days"),
    "one text for a list": ("connections: [lake]", "connections: lake", "connections: ", "put brackets around it: `[…]`"),
    "one outlet": ("[orders]\n    retries", "orders\n    retries", "40: ", "write `[orders]`"),
    "a password that is not encoded": (
        "${SHOP_DSN}", "postgresql://odd:p@ss/w#rd@db.example.com/shop", "12: ", "@ is %40, / is %2F, # is %23", "password as keys of their own",
    ),
    "a number in words": ("retries: 3", "retries: three", "41: jobs.load_orders.retries: must be a whole number, not text; write `3`"),
}  # fmt: skip
LOCAL = f"{CONFIGURATION[: CONFIGURATION.index('connections:')]}{CONFIGURATION[CONFIGURATION.index('assets:') : CONFIGURATION.index('  landing:')]}"
AT_SOURCE = {
    "a folder that is not there": ("path: inbox", "path: inbxo", 3, "inbxo' cannot be listed", "check the watcher's path"),
    "a pattern that matches nothing": (
        "", "", 3, "1 file, none matches `*.csv`; the first: monday/a.csv", 'set `match: "**/*.csv"`, which matches 1',
    ),
}  # fmt: skip
COMMANDS = {
    "a command misspelt": ("statsu", 2, "Did you mean 'status'?"),
    "an option of a command misspelt": ("check --conect", 2, "Possible options: --config, --connect"),
    "a watcher misspelt": ("pause inbx_files", 4, "no watcher 'inbx_files'; `watcher watchers list` shows"),
    "a job misspelt": ("runs list lod", 4, "no job 'lod'; `watcher jobs list` shows"),
    "an asset misspelt": ("assets events inbx", 4, "no asset 'inbx'; `watcher assets list` shows"),
    "no daemon": ("status", 1, "no daemon has run here yet; start `watcher run`"),
    "a question before the first start": ("explain monday/a.csv", 4, "was never started; start `watcher run`"),
    "a poll by hand": ("poll inbox_files", 2, "a watcher polls by itself; add --dry-run"),
    "a rewind to nowhere": ("rewind inbox_files", 2, "give --to, or --undo"),
    "a token without a role": ("token create --subject me", 2, "Missing option '--role'"),
    "conf that is no JSON": ("runs start load --conf {a", 2, "--conf is no JSON"),
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "inbox" / "monday").mkdir(parents=True)
    (tmp_path / "inbox" / "monday" / "a.csv").touch()
    (tmp_path / "load_orders.py").touch()
    monkeypatch.setenv("SHOP_DSN", "postgresql://reader:x@db.example.com/shop")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(folder: Path, configuration: str, *words: str, exits: int) -> str:
    (folder / "watchers.yaml").write_text(configuration, encoding="utf-8")
    result = CliRunner().invoke(app, [*words])
    assert (result.exit_code, "Traceback" in result.output) == (exits, False), result.output
    return result.output


def test_the_configuration_without_mistakes_is_right(folder: Path) -> None:
    assert "is right: 4 assets, 3 watchers, 2 jobs" in run(folder, CONFIGURATION, "check", exits=0)


@pytest.mark.parametrize("mistake", IN_FILE)
def test_a_mistake_in_the_file_has_a_sentence(mistake: str, folder: Path) -> None:
    right, wrong, *parts = IN_FILE[mistake]
    assert right in CONFIGURATION
    first, *_ = run(folder, CONFIGURATION.replace(right, wrong, 1), "check", exits=2).splitlines()
    assert [part for part in parts if part not in first] == []


@pytest.mark.parametrize("mistake", AT_SOURCE)
def test_a_mistake_about_the_source_has_a_sentence(mistake: str, folder: Path) -> None:
    right, wrong, exits, *parts = AT_SOURCE[mistake]
    shown = run(folder, LOCAL.replace(right, wrong, 1), "check", "--connect", exits=exits)
    assert [part for part in parts if part not in shown] == []
    assert "network" not in shown


@pytest.mark.parametrize("mistake", COMMANDS)
def test_a_mistake_in_a_command_has_a_sentence(mistake: str, folder: Path) -> None:
    words, exits, part = COMMANDS[mistake]
    assert part in " ".join(run(folder, LOCAL, *words.split(), exits=exits).split())


@pytest.mark.parametrize(
    ("words", "command"),
    [
        *((f"watchers {word}", word) for word in ("pause", "resume", "poll", "logs", "rewind", "explain", "reconcile")),
        *((f"jobs {word}", f"runs {word}") for word in ("start", "retry", "cancel", "logs")),
        *(
            ("jobs replay", "replay"),
            ("jobs runs", "runs list"),
            ("runs rerun", "runs retry"),
            ("runs clear", "runs retry"),
        ),
    ],
)
def test_a_command_is_accepted_where_people_look_for_it(words: str, command: str) -> None:
    meant = CliRunner().invoke(app, [*command.split(), "--help"])
    assert meant.exit_code == 0, meant.output
    for program_of_words in (app, program(words.split())):
        result = CliRunner().invoke(program_of_words, [*words.split(), "--help"])
        assert (result.exit_code, result.output) == (0, meant.output), "and nothing is printed about it"


def test_a_command_by_other_words_does_what_the_command_does(folder: Path) -> None:
    expected = run(folder, LOCAL, "pause", "inbx_files", exits=4)
    assert run(folder, LOCAL, "watchers", "pause", "inbx_files", exits=4) == expected
