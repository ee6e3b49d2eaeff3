"""How a valid file is loaded: defaults, paths, values from outside, folders, warnings."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr, ValidationError
from sqlalchemy import make_url

from config.errors import ConfigurationInvalid
from config.models import Configuration
from config.models.schedules import AliasCondition, All, AssetCondition
from config.reading.loader import load
from config.reading.settings_loader import load_settings
from config.vocabulary import Vocabulary
from watcher.installed import known_settings


@pytest.mark.feature("airflow", "alerts", "kubernetes")
def test_an_empty_configuration_has_the_documented_settings(
    load_text: Callable[..., Configuration], tmp_path: Path
) -> None:
    settings = load_text().settings
    assert settings.model_dump(by_alias=True) == {
        "home": tmp_path / ".watcher",
        "database": {
            "url": None,
            "password": None,
            "iam": False,
            "sslmode": None,
            "sslrootcert": None,
            "sslcert": None,
            "sslkey": None,
        },
        "api": {
            "host": "127.0.0.1",
            "port": 8795,
            "base_url": None,
            "docs_url": None,
            "auth": "tokens",
            "secret": None,
            "hosts": None,
            "trusted_proxies": (),
            "limits": {
                "header_bytes": 64_000,
                "body_bytes": 1_000_000,
                "execution_body_bytes": 16_000_000,
                "header_timeout": timedelta(seconds=10),
                "body_timeout": timedelta(seconds=60),
                "idle_timeout": timedelta(seconds=75),
                "connections": 500,
                "per_address": 100,
            },
        },
        "store": {
            "backend": "store.metastore.MetastoreStoreBackend",
            "options": {},
            "default_retention_days": 30,
            "clear_on_success": False,
            "state_cleanup_batch_size": 0,
            "max_value_storage_bytes": 65535,
            "history_retention_days": 90,
            "event_retention_days": 90,
            "run_retention_days": 90,
            "orphan_grace_days": 30,
            "cleanup_interval": timedelta(hours=1),
        },
        "workers": {"state_store_backend": None, "options": {}},
        "kubernetes": None,
        "airflow": None,
        "triggerer": {
            "heartbeat": timedelta(seconds=5),
            "lease": timedelta(seconds=15),
            "capacity": 10_000,
            "grace": timedelta(seconds=30),
            "poll_timeout": timedelta(minutes=5),
            "batch": {"max_events": 10_000, "max_bytes": 16_000_000},
            "isolation": {"memory_mb": 512},
        },
        "scheduler": {
            "parallelism": 4,
            "driver_memory_mb": 550,
            "memory_mb": None,
            "warm_memory_mb": None,
            "cancel_jobs": False,
            "spark_history_url": None,
        },
        "logs": {
            "directory": None,
            "level": "info",
            "format": "auto",
            "json": None,
            "retention_days": 30,
            "max_file_mb": 64,
        },
        "alerts": (),
        "plugins_dir": tmp_path / "plugins",
        "features": (),
    }


def test_a_job_needs_only_its_application(load_text: Callable[..., Configuration], tmp_path: Path) -> None:
    job = load_text("jobs: {load: {spark: {application: jobs/load orders.py}}}").jobs["load"]
    assert job.task_id == "load_orders"
    assert job.model_dump(mode="json") == {
        "task_id": "load_orders",
        "schedule": None,
        "batch": {
            "mode": "coalesce",
            "by": None,
            "complete": None,
            "debounce": "0s",
            "max_wait": "5m",
            "max_events": 1000,
        },
        "inlets": [],
        "outlets": [],
        "max_active_runs": 1,
        "retries": 0,
        "retry_delay": "30s",
        "timeout": None,
        "deadline": None,
        "expect_within": None,
        "paused": False,
        "catchup": False,
        "spark": {
            "submitter": "spark-submit",
            "application": str(tmp_path / "jobs/load orders.py"),
            "master": "local[*]",
            "profile": "small",
            "driver_memory": "512m",
            "executor_memory": None,
            "executor_cores": None,
            "num_executors": None,
            "dynamic_allocation": False,
            "warm": 0,
            "conf": {},
            "packages": [],
            "jars": [],
            "py_files": [],
            "files": [],
            "archives": [],
            "properties_file": None,
            "args": [],
            "env": {},
            "connections": [],
            "python": None,
            "options": {},
        },
    }


def test_an_asset_needs_only_its_name(load_text: Callable[..., Configuration]) -> None:
    configuration = load_text("assets:\n  orders:\naliases:\n  daily:\n")
    assert configuration.assets["orders"].model_dump() == {
        "uri": "orders",
        "group": "asset",
        "extra": {},
        "expect_every": None,
        "expect_by": None,
        "partition": None,
        "watchers": {},
    }
    assert configuration.aliases["daily"].group == "asset"


def test_empty_sections_are_allowed(load_text: Callable[..., Configuration]) -> None:
    assert load_text("settings:\nconnections:\nassets:\naliases:\njobs:\n").assets == {}


def test_a_watcher_gets_what_the_uri_implies_and_keeps_what_was_written(
    load_text: Callable[..., Configuration],
) -> None:
    watchers = load_text("""\
connections: {pond: {type: lake}}
assets:
  orders:
    uri: s3://landing/orders/
    watchers:
      implied: {trigger: lake.files, connection: pond}
      written: {trigger: lake.files, connection: pond, bucket: other, interval: 5m, start: "7"}
  all: {uri: s3://landing, watchers: {whole: {trigger: lake.files, connection: pond}}}
""").watchers
    implied, written, whole = (watchers[name] for name in ("implied", "written", "whole"))
    assert (implied.asset, implied.trigger, implied.connection) == ("orders", "lake.files", "pond")
    assert implied.options.model_dump() | {"batch": None} == {
        "bucket": "landing",
        "prefix": "orders/",
        "interval": timedelta(seconds=10),
        "start": "now",
        "batch": None,
    }
    assert (
        written.options.model_dump().items()
        >= {
            "bucket": "other",
            "interval": timedelta(minutes=5),
            "start": 7,
        }.items()
    )
    assert whole.options.model_dump().items() >= {"bucket": "landing", "prefix": ""}.items()


def test_relative_paths_start_at_the_file(load_text: Callable[..., Configuration], tmp_path: Path) -> None:
    configuration = load_text("""\
settings: {home: ../home, plugins_dir: /plugins, logs: {directory: logs}}
assets: {orders: }
jobs:
  a: {spark: {application: a.py, jars: [lib/x.jar, "hdfs:///x.jar", "local:/x.jar"], py_files: [/x.zip, x.zip]}}
  b: {spark: {application: builtin:ingest, options: {target: table, bad_records: "file:///bad"}}, outlets: [orders]}
  c: {spark: {application: "s3a://code/c.py"}}
""")
    settings, jobs = configuration.settings, configuration.jobs
    assert (settings.home, settings.plugins_dir, settings.logs.directory) == (
        tmp_path / "../home",
        Path("/plugins"),
        tmp_path / "logs",
    )
    assert jobs["a"].spark.jars == (f"{tmp_path}/lib/x.jar", "hdfs:///x.jar", "local:/x.jar")
    assert jobs["a"].spark.py_files == ("/x.zip", f"{tmp_path}/x.zip")
    assert (jobs["b"].spark.application, jobs["b"].task_id) == ("builtin:ingest", "ingest")
    assert jobs["b"].spark.options == {"target": f"{tmp_path}/table", "bad_records": "file:///bad"}
    assert (jobs["c"].spark.application, jobs["c"].task_id) == ("s3a://code/c.py", "c")


def test_the_folder_is_absolute_also_of_a_relative_file(
    write: Callable[[str], Path], vocabulary: Vocabulary, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    write("")
    monkeypatch.chdir(tmp_path)
    configuration = load(Path("watchers.yaml"), vocabulary, {})
    assert (configuration.file, configuration.folder) == (Path("watchers.yaml"), tmp_path)


FROM_A_FILE = "a text of at least 32 bytes, from a file"


def test_values_from_outside_are_coerced_to_the_fields_type(
    load_text: Callable[..., Configuration], tmp_path: Path
) -> None:
    (tmp_path / "secret").write_text(f"{FROM_A_FILE}\n")
    configuration = load_text(
        """\
settings:
  api: {port: "${PORT}", secret: "${file:secret}"}
  logs: {json: "${JSON:-false}"}
  triggerer: {grace: "${GRACE}s"}
aliases: {a: {group: "$${PORT} costs $5"}}
""",
        PORT="99",
        GRACE="7",
    )
    settings = configuration.settings
    assert (settings.api.port, settings.logs.as_json, settings.triggerer.grace) == (99, False, timedelta(seconds=7))
    assert settings.api.secret == (SecretStr(FROM_A_FILE),)
    assert configuration.aliases["a"].group == "${PORT} costs $5"


def test_spark_properties_arguments_and_environment_become_texts(load_text: Callable[..., Configuration]) -> None:
    spark = (
        load_text("""\
jobs: {j: {spark: {application: a.py, conf: {x: 2, y: true}, args: [1.5, a], env: {N: 3}}}}
""")
        .jobs["j"]
        .spark
    )
    assert (spark.conf, spark.args) == ({"x": "2", "y": "true"}, ("1.5", "a"))
    assert spark.env["N"].get_secret_value() == "3"


def test_yaml_is_version_1_2(load_text: Callable[..., Configuration]) -> None:
    extra = (
        load_text("""\
assets:
  a:
    extra: {yes: yes, when: 2026-11-20, octal: 0o17, decimal: 017, hex: 0x1F, many: 1_000, small: 1e-3, none: ~, "on": TRUE}
""")
        .assets["a"]
        .extra
    )
    assert extra == {
        "yes": "yes",
        "when": "2026-11-20",
        "octal": 15,
        "decimal": 17,
        "hex": 31,
        "many": 1000,
        "small": 0.001,
        "none": None,
        "on": True,
    }


@pytest.mark.parametrize(
    ("keys", "read"),
    [("{}", ("auto", None)), ("{json: true}", ("auto", True)), ("{format: text}", ("text", None))],
)
def test_the_format_of_the_log_has_an_older_key(load_text: Callable[..., Configuration], keys: str, read: Any) -> None:
    logs = load_text(f"settings: {{logs: {keys}}}").settings.logs
    assert (logs.format, logs.as_json) == read


def test_both_keys_for_the_format_of_the_log_are_refused(load_text: Callable[..., Configuration]) -> None:
    with pytest.raises(ConfigurationInvalid, match="`json` and `format` say the same; remove `json`"):
        load_text("settings: {logs: {json: true, format: auto}}")


def test_a_value_may_be_shared_by_an_anchor(load_text: Callable[..., Configuration]) -> None:
    jobs = load_text("jobs: {a: {spark: &spark {application: a.py}}, b: {spark: *spark}}").jobs
    assert jobs["a"] == jobs["b"]


def test_every_setting_can_come_from_the_environment(load_text: Callable[..., Configuration], tmp_path: Path) -> None:
    settings = load_text(
        "settings: {api: {port: 1, host: localhost, base_url: http://old}}",
        WATCHER_SETTINGS__API__PORT="2",
        WATCHER_SETTINGS__HOME="elsewhere",
        WATCHER_SETTINGS__LOGS__JSON="false",
        WATCHER_SETTINGS__SCHEDULER__MEMORY_MB="null",
        WATCHER_SETTINGS__STORE__OPTIONS="{url: 'redis://r', ttl: 5}",
        WATCHER_SETTINGS__STORE__OPTIONS__URL="$literal",
        WATCHER_SETTINGS__TRIGGERER__LEASE="1m",
        WATCHER_SETTINGS__API__BASE_URL="null",
        WATCHER_OTHER="x",
    ).settings
    assert (settings.api.port, settings.api.host) == (2, "localhost")
    assert settings.home == tmp_path / "elsewhere"
    assert settings.logs.as_json is False
    assert settings.store.options == {"url": "$literal", "ttl": 5}
    assert settings.triggerer.lease == timedelta(minutes=1)
    assert settings.api.base_url is None


@pytest.mark.parametrize(
    ("variable", "value", "sentence"),
    [
        ("WATCHER_SETTINGS__API__HOTS", "x", "settings.api.hots: is not a key here; did you mean `hosts`?"),
        ("WATCHER_SETTINGS__API__PORT", "x", "settings.api.port: must be a whole number, not text"),
        ("WATCHER_SETTINGS__API", "[1", "settings.api: is not valid YAML; correct its brackets or quotes"),
        ("WATCHER_SETTINGS__API", "x", "settings.api: must be a mapping (`key: value`), not text"),
    ],
)
def test_a_mistake_in_the_environment_names_the_variable(
    problems: Callable[..., list[str]], variable: str, value: str, sentence: str
) -> None:
    assert problems("", **{variable: value}) == [f"{variable}: {sentence}"]


@pytest.mark.parametrize(
    "address",
    [
        "postgresql+asyncpg://u:p/a#w?@h:5432/d",
        "postgresql+asyncpg://u:p%40w%3A1@h/d?ssl=require",
        "postgresql+asyncpg://[::1]:5432/d",
        "postgresql+asyncpg://u@/d?host=/run:1/postgresql",
        "postgresql+asyncpg:///d",
        "sqlite+aiosqlite:////var/lib/a:b/watcher.db",
    ],
)
def test_a_valid_database_url_is_accepted(load_text: Callable[..., Configuration], address: str) -> None:
    url = load_text(WATCHER_SETTINGS__DATABASE__URL=address).settings.database.url
    assert url is not None
    assert make_url(url.get_secret_value()).port in {None, 5432}


def test_the_environment_wins_over_an_unresolved_reference(load_text: Callable[..., Configuration]) -> None:
    text = "settings: {api: {port: '${UNSET}'}}"
    assert load_text(text, WATCHER_SETTINGS__API__PORT="2").settings.api.port == 2


def test_the_environment_does_not_hide_that_a_section_is_wrong(problems: Callable[..., list[str]]) -> None:
    assert problems("settings: [1]", WATCHER_SETTINGS__API__PORT="2") == [
        "watchers.yaml:2: settings: must be a mapping (`key: value`), not a list"
    ]


def test_a_configuration_cannot_be_changed(load_text: Callable[..., Configuration]) -> None:
    configuration = load_text("assets: {a: }")
    with pytest.raises(ValidationError):
        configuration.assets["a"].group = "other"


CIRCLE = """\
assets: {raw: , clean: , report: }
aliases: {daily: }
jobs:
  clean: {spark: {application: a.py}, schedule: [raw, {any: [report]}], outlets: [clean]}
  report: {spark: {application: a.py}, schedule: clean, outlets: [{alias: daily}]}
  publish: {spark: {application: a.py}, schedule: {alias: daily}, outlets: [report]}
  own: {spark: {application: a.py}, schedule: raw, outlets: [raw]}
  by_time: {spark: {application: a.py}, schedule: {cron: "@daily"}, outlets: [raw]}
"""


def test_jobs_that_start_each_other_are_a_warning(load_text: Callable[..., Configuration], tmp_path: Path) -> None:
    warnings = [str(warning).replace(f"{tmp_path}/", "") for warning in load_text(CIRCLE).warnings]
    circles = {frozenset(warning.split(": ")[3].split(";")[0].split(" -> ")) for warning in warnings}
    assert circles == {frozenset({"clean", "report", "publish"}), frozenset({"own"})}
    assert (
        "watchers.yaml:8: jobs.own: these jobs start each other in a circle: own -> own; make sure that something ends it"
        in warnings
    )


def test_jobs_in_a_row_are_no_circle(load_text: Callable[..., Configuration]) -> None:
    assert load_text(CIRCLE.replace("{any: [report]}", "raw").replace("outlets: [raw]", "outlets: []")).warnings == ()


def test_a_schedule_arrives_as_a_tree(load_text: Callable[..., Configuration]) -> None:
    schedule = (
        load_text(
            "assets: {a: , b: }\naliases: {c: }\njobs: {j: {spark: {application: a.py}, schedule: [a, {alias: c}]}}"
        )
        .jobs["j"]
        .schedule
    )
    assert schedule.condition == All((AssetCondition("a"), AliasCondition("c")))


HASHED = """\
assets: {orders: {uri: s3://b/x, watchers: {w: {trigger: lake.files, connection: pond}}}}
connections: {pond: {type: lake, region: "${REGION:-here}", key: "${KEY:-k}"}}
jobs: {j: {spark: {application: a.py, env: {A: "${KEY:-k}"}}, schedule: orders, retries: 1}}
"""


def test_the_hash_depends_on_the_content_not_on_its_order_or_place(load_text: Callable[..., Configuration]) -> None:
    lines = HASHED.splitlines(keepends=True)
    reordered = "".join(reversed(lines)).replace("{uri: s3://b/x, ", "{group: asset, uri: s3://b/x, ")
    assert load_text(reordered).hash == load_text(HASHED).hash


@pytest.mark.parametrize(
    "environ",
    [{"KEY": "other"}, {"WATCHER_SETTINGS__API__PORT": "1"}, {"WATCHER_SETTINGS__HOME": "/x"}],
    ids=["secret", "port", "home"],
)
def test_the_hash_covers_no_secrets_and_nothing_of_one_process(
    load_text: Callable[..., Configuration], environ: dict[str, str]
) -> None:
    assert load_text(HASHED, **environ).hash == load_text(HASHED).hash


@pytest.mark.parametrize(
    "environ",
    [{"REGION": "there"}, {"WATCHER_SETTINGS__STORE__CLEAR_ON_SUCCESS": "true"}],
    ids=["connection", "store"],
)
def test_the_hash_covers_what_processes_must_agree_on(
    load_text: Callable[..., Configuration], environ: dict[str, str]
) -> None:
    assert load_text(HASHED, **environ).hash != load_text(HASHED).hash


def test_the_hash_covers_options_of_a_watcher_and_of_a_job(load_text: Callable[..., Configuration]) -> None:
    hashes = {
        load_text(text).hash
        for text in (HASHED, HASHED.replace("s3://b/x", "s3://b/y"), HASHED.replace("retries: 1", "retries: 2"))
    }
    assert len(hashes) == 3


def test_the_settings_are_read_alone(write: Callable[[str], Path]) -> None:
    text = 'settings: {home: there, api: {port: "${PORT}"}}\nconnections: {a: {b: "${MISSING}"}}\njobs: {a: 1, a: 2}\n'
    file = write(text)
    settings = load_settings(file, {"PORT": "7", "WATCHER_SETTINGS__API__HOST": "::1"}, known_settings)
    assert (settings.api.port, settings.api.host, settings.home) == (7, "::1", file.parent / "there")
    assert load_settings(write("jobs: {}"), {}, known_settings).api.port == 8795


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("settings: {hom: x}", "watchers.yaml:2: settings.hom: is not a key here; did you mean `home`?"),
        ("settings: 5", "watchers.yaml:2: settings: must be a mapping (`key: value`)"),
        ("settings: {home: a, home: b}", "watchers.yaml:2: settings.home: is defined twice"),
        (
            'settings: {home: "${MISSING}"}',
            "watchers.yaml:2: settings.home: the environment variable MISSING is not set",
        ),
        ("settings: [", "is not valid YAML"),
    ],
)
def test_settings_that_are_wrong_are_refused(write: Callable[[str], Path], text: str, sentence: str) -> None:
    with pytest.raises(ConfigurationInvalid) as refused:
        load_settings(write(text), {}, known_settings)
    assert sentence in str(refused.value)
