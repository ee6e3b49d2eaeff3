"""Each mistake gets one sentence with file, line, path and remedy. All of them are reported at once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from config.errors import ConfigurationInvalid, Problem
from config.names import Isolation
from config.reading.loader import load
from config.vocabulary import TriggerKind, Vocabulary

CASES = {
    "unknown section": (
        "settigns: {}",
        "2: settigns: is not a key here; did you mean `settings`?",
    ),
    "unknown setting": (
        "settings:\n  api:\n    hots: x",
        "4: settings.api.hots: is not a key here; did you mean `hosts`?",
    ),
    "unknown key far from any other": (
        "aliases: {a: {zzz: 1}}",
        "2: aliases.a.zzz: is not a key here; known: `group`",
    ),
    "wrong type": (
        "settings:\n  api:\n    port: abc",
        "4: settings.api.port: must be a whole number, not text",
    ),
    "a number for a text": (
        "settings: {api: {host: 3}}",
        "2: settings.api.host: must be text (put it in quotes), not a number",
    ),
    "limit": (
        "settings: {api: {port: 70000}}",
        "2: settings.api.port: must be at most 65535",
    ),
    "infinity for a whole number": (
        "settings: {scheduler: {parallelism: .inf}}",
        "2: settings.scheduler.parallelism: must be a finite number",
    ),
    "no number for a whole number": (
        "settings: {api: {port: .nan}}",
        "2: settings.api.port: must be a finite number",
    ),
    "capacity that no database counts": (
        "settings: {triggerer: {capacity: 2147483648}}",
        "2: settings.triggerer.capacity: must be at most 2147483647",
    ),
    "retries that no database counts": (
        "jobs: {j: {spark: {application: a.py}, retries: 9999999999}}",
        "2: jobs.j.retries: must be at most 2147483647",
    ),
    "runs that no database counts": (
        "jobs: {j: {spark: {application: a.py}, max_active_runs: 9999999999}}",
        "2: jobs.j.max_active_runs: must be at most 2147483647",
    ),
    "events that no database counts": (
        "jobs: {j: {spark: {application: a.py}, batch: {max_events: 9999999999}}}",
        "2: jobs.j.batch.max_events: must be at most 2147483647",
    ),
    "failures that no database counts": (
        "assets: {a: {watchers: {w: {trigger: clock, pause_after_failures: 2147483648}}}}",
        "2: assets.a.watchers.w.pause_after_failures: must be a whole number, at least 1 and at most 2147483647, or null",
    ),
    "seconds that no database counts": (
        "assets: {a: {expect_every: 30000d}}",
        "2: assets.a.expect_every: must be at most 24855d",
    ),
    "null for a mapping": (
        "settings: {api: null}",
        "2: settings.api: must be a mapping (`key: value`), not empty",
    ),
    "list for a section": (
        "assets: [a]",
        "2: assets: must be a mapping (`key: value`), not a list",
    ),
    "choice": (
        "settings: {logs: {level: loud}}",
        "2: settings.logs.level: must be `debug`, `info`, `warning` or `error`",
    ),
    "open to everybody": (
        "settings: {api: {auth: none, host: 0.0.0.0}}",
        "2: settings.api.auth: `none` is for a loopback host only: set `auth: tokens`, or `host: 127.0.0.1`",
    ),
    "short secret": (
        "settings: {api: {secret: only 31 bytes and here they are}}",
        "2: settings.api.secret: must have at least 32 bytes: `openssl rand -hex 32` makes one",
    ),
    "short secret in a list": (
        "settings: {api: {secret: [a secret of more than 31 bytes in all, short]}}",
        "2: settings.api.secret: each must have at least 32 bytes: `openssl rand -hex 32` makes one",
    ),
    "no secret": (
        "settings: {api: {secret: []}}",
        "2: settings.api.secret: must be of length 1 or more",
    ),
    "any host": (
        "settings: {api: {hosts: ['*']}}",
        "2: settings.api.hosts[0]: must be a host name or an address as in a URL, without a port; `*` is not allowed",
    ),
    "host with a port": (
        "settings: {api: {hosts: ['w.example:80']}}",
        "2: settings.api.hosts[0]: must be a host name or an address as in a URL, without a port; `*` is not allowed",
    ),
    "proxy that is no network": (
        "settings: {api: {trusted_proxies: [10.0.0.1/8]}}",
        "2: settings.api.trusted_proxies[0]: must be an address or a network such as `10.1.0.0/16`, without host bits",
    ),
    "limit without a size": (
        "settings: {api: {limits: {header_bytes: 1KB}}}",
        "2: settings.api.limits.header_bytes: must be a number of bytes such as `64kB`, `16MB`, `1GB` (powers of 1,000) or `65536`; write `1000`, in bytes",
    ),
    "database driver": (
        "settings: {database: {url: 'mysql://u:hunter22@h/d'}}",
        "2: settings.database.url: must begin with `postgresql+asyncpg://` or `sqlite+aiosqlite://`; null is SQLite in `home`",
    ),
    "password at two places": (
        "settings: {database: {url: 'postgresql+asyncpg://u@h/d', password: {file: f, command: [c]}}}",
        "2: settings.database.password: needs either a `file` or a `command`",
    ),
    "password of an embedded database": (
        "settings: {database: {password: {file: f}}}",
        "2: settings.database: has `password` but no `url` of a PostgreSQL",
    ),
    "database at no port": (
        "settings: {database: {url: 'postgresql+asyncpg://u:hunter22@h:54x2/d'}}",
        (
            "2: settings.database.url: has no port from 1 to 65535 after its host; write `@` in a user or password as `%40`, "
            "`:` as `%3A`"
        ),
    ),
    "password of a database with an @": (
        "settings: {database: {url: 'postgresql+asyncpg://u:hun@ter22@h/d'}}",
        "2: settings.database.url: has an `@` in its user or password; write it as `%40`, and `%` as `%25`",
    ),
    "password of a database with an @ and a slash": (
        "settings: {database: {url: 'postgresql+asyncpg://u:hun@ter/2#2@h/d'}}",
        "2: settings.database.url: has an `@` in its user or password; write it as `%40`, and `%` as `%25`",
    ),
    "password of a database with a bracket": (
        "settings: {database: {url: 'postgresql+asyncpg://u:hun[ter22@h/d'}}",
        "2: settings.database.url: has a bracket in its user or password; write `[` as `%5B`, `]` as `%5D`",
    ),
    "password of a database that is cut": (
        "settings: {database: {url: 'postgresql+asyncpg://u:hun@ter:22@h/d'}}",
        (
            "2: settings.database.url: has no port from 1 to 65535 after its host; write `@` in a user or password as `%40`, "
            "`:` as `%3A`"
        ),
    ),
    "dotted path": (
        "settings: {store: {backend: Memory}}",
        "2: settings.store.backend: must be the dotted path of a class, such as `package.module.Class`",
    ),
    "duration without unit": (
        "settings: {triggerer: {grace: 30}}",
        "2: settings.triggerer.grace: must be a duration of at most 36500d, written like `500ms`, `10s`, `5m`, `2h` or `7d`; with its unit: write `30s`, `30m`, `30h` or `30d`",
    ),
    "duration of nothing": (
        "settings: {triggerer: {lease: 0s}}",
        "2: settings.triggerer.lease: must be longer than 0s",
    ),
    "default that clashes with a given value": (
        "settings: {triggerer: {heartbeat: 20s}}",
        "2: settings.triggerer: `lease` must be longer than `heartbeat`, or each lease ends before it is renewed; three times is usual",
    ),
    "address": (
        "settings: {api: {base_url: watcher.example}}",
        "2: settings.api.base_url: must begin with `http://` or `https://`",
    ),
    "connection without type": (
        "connections: {lake: {}}",
        "2: connections.lake.type: is missing; known: `lake`, `shop`",
    ),
    "connection of unknown type": (
        "connections: {lake: {type: lakes}}",
        "2: connections.lake.type: is no type of connection; did you mean `lake`?",
    ),
    "empty connection": (
        "connections: {lake: }",
        "2: connections.lake: must be a mapping (`key: value`), not empty",
    ),
    "missing key": (
        "connections: {shop: {type: shop}}",
        "2: connections.shop.dsn: is missing; add it",
    ),
    "the words of somebody else's validator": (
        "connections: {lake: {type: lake, region: nowhere}}",
        "2: connections.lake.region: there is no region `nowhere`; name one that exists",
    ),
    "name": (
        "connections: {bad name: {type: lake}}",
        "2: connections.bad name: is not a name: use up to 250 of the characters A-Z a-z 0-9 _ . - and begin with a letter, a digit or _",
    ),
    "bad uri": (
        "assets: {a: {uri: 's3://'}}",
        "2: assets.a.uri: an s3: URI names a bucket: write `s3://bucket/prefix/`",
    ),
    "uri of a wrong type": (
        "assets: {a: {uri: 5}}",
        "2: assets.a.uri: must be text (put it in quotes), not a number",
    ),
    "the same uri twice": (
        "assets:\n  a: {uri: s3://b/x}\n  b:\n    uri: S3://b/x/",
        "5: assets.b.uri: is the URI of another asset at watchers.yaml:3; name that one instead",
    ),
    "credential in extra": (
        "assets: {a: {extra: {n: [{url: 'postgres://a:hunter22@h'}]}}}",
        "2: assets.a.extra.n[0].url: looks like a credential, and `extra` is stored and shown in clear: keep it in a connection",
    ),
    "extra that is no JSON": (
        "assets: {a: {extra: {x: [.nan]}}}",
        "2: assets.a.extra: holds a number that JSON cannot write (.nan or .inf); remove it",
    ),
    "watchers as a list": (
        "assets: {a: {watchers: []}}",
        "2: assets.a.watchers: must be a mapping (`key: value`), not a list",
    ),
    "watcher without trigger": (
        "assets: {a: {watchers: {w: {}}}}",
        "2: assets.a.watchers.w.trigger: must name a trigger, or the dotted path of a class of yours; known: `clock`, `lake.files`, `shop.rows`",
    ),
    "unknown trigger": (
        "assets: {a: {watchers: {w: {trigger: lake.flies}}}}",
        "2: assets.a.watchers.w.trigger: there is no trigger `lake.flies`; did you mean `lake.files`?",
    ),
    "unknown connection": (
        "connections: {pond: {type: lake}}\nassets: {a: {uri: s3://b, watchers: {w: {trigger: lake.files, connection: pnd}}}}",
        "3: assets.a.watchers.w.connection: unknown connection `pnd`; did you mean `pond`?",
    ),
    "connection of another type": (
        "connections: {pond: {type: lake}, shop: {type: shop, dsn: x}}\nassets: {a: {uri: s3://b, watchers: {w: {trigger: lake.files, connection: shop}}}}",
        "3: assets.a.watchers.w.connection: `shop` is not of type `lake`, which this trigger needs; known: `pond`",
    ),
    "connection missing": (
        "connections: {pond: {type: lake}}\nassets: {a: {uri: s3://b, watchers: {w: {trigger: lake.files}}}}",
        "3: assets.a.watchers.w.connection: is missing: this trigger needs a connection of type `lake`; known: `pond`",
    ),
    "no connection to name": (
        "assets: {a: {uri: s3://b, watchers: {w: {trigger: lake.files}}}}",
        "2: assets.a.watchers.w.connection: is missing: this trigger needs a connection of type `lake`; add one of `type: lake` to `connections`",
    ),
    "connection of no use": (
        "connections: {pond: {type: lake}}\nassets: {a: {watchers: {w: {trigger: clock, connection: pond}}}}",
        "3: assets.a.watchers.w.connection: has no effect: this trigger uses no connection; remove it",
    ),
    "connection that is no name": (
        "connections: {pond: {type: lake}}\nassets: {a: {uri: s3://b, watchers: {w: {trigger: lake.files, connection: [pond]}}}}",
        "3: assets.a.watchers.w.connection: must be the name of a connection; did you mean `pond`?",
    ),
    "watcher's name used twice": (
        "assets:\n  a: {watchers: {w: {trigger: clock}}}\n  b: {watchers: {w: {trigger: clock}}}",
        "4: assets.b.watchers.w: is the name of another watcher at watchers.yaml:3; rename one of them",
    ),
    "watcher's name": (
        "assets: {a: {watchers: {bad name: {trigger: clock}}}}",
        "2: assets.a.watchers.bad name: is not a name: use up to 250 of the characters A-Z a-z 0-9 _ . - and begin with a letter, a digit or _",
    ),
    "defaults that cannot be": (
        "connections: {pond: {type: lake}}\nassets: {a: {uri: 'x-broken:1', watchers: {w: {trigger: lake.files, connection: pond}}}}",
        "3: assets.a.watchers.w: no bucket can be made of this URI; name one",
    ),
    "job without spark": (
        "jobs: {j: {}}",
        "2: jobs.j.spark: is missing; add it",
    ),
    "empty job": (
        "jobs: {j: }",
        "2: jobs.j: must be a mapping (`key: value`), not empty",
    ),
    "unknown built-in": (
        "jobs: {j: {spark: {application: builtin:ingets}}}",
        "2: jobs.j.spark.application: is not a built-in application; did you mean `builtin:ingest`?",
    ),
    "option of the built-in": (
        "jobs: {j: {spark: {application: builtin:ingest, options: {targt: x}}}}",
        "2: jobs.j.spark.options.targt: is not a key here; did you mean `target`?",
    ),
    "driver on the cluster": (
        "jobs:\n  j:\n    spark:\n      application: a.py\n      conf: {spark.submit.deployMode: cluster}",
        (
            "6: jobs.j.spark.conf.spark.submit.deployMode: must be `client`: the driver runs beside the daemon, which passes it its "
            "context and token in a file, and finds, stops and fences it as a process of this machine; a driver in cluster mode "
            "is not one"
        ),
    ),
    "memory": (
        "jobs: {j: {spark: {application: a.py, driver_memory: plenty}}}",
        "2: jobs.j.spark.driver_memory: must be an amount of memory such as `512m` or `2g`, a whole number and its unit",
    ),
    "unknown connection of a job": (
        "connections: {lake: {type: lake}}\njobs: {j: {spark: {application: a.py, connections: [lake, lke]}}}",
        "3: jobs.j.spark.connections[1]: unknown connection `lke`; did you mean `lake`?",
    ),
    "unknown inlet": (
        "assets: {orders: }\njobs: {j: {spark: {application: a.py}, inlets: [ordres]}}",
        "3: jobs.j.inlets[0]: unknown asset `ordres`; did you mean `orders`?",
    ),
    "outlet in a wrong form": (
        "jobs: {j: {spark: {application: a.py}, outlets: [{alais: x}]}}",
        "2: jobs.j.outlets[0]: must be an asset's name or `{alias: name}`",
    ),
    "outlets that are no list": (
        "assets: {orders: }\njobs: {j: {spark: {application: a.py}, outlets: orders}}",
        "3: jobs.j.outlets: must be a list of asset names and `{alias: name}`: write `[orders]`",
    ),
    "key given twice": (
        "assets:\n  a: {}\n  a: {group: x}",
        "4: assets.a: is defined twice, first at watchers.yaml:3; remove one of them",
    ),
    "tag": (
        "assets: {a: !secret x}",
        "2: assets.a: the tag `!secret` has no meaning here; remove it",
    ),
    "tag that does not fit": (
        "settings: {api: {port: !!int x}}",
        "2: settings.api.port: the value does not match its tag `!!int`; remove the tag",
    ),
    "merge key": (
        "assets: {a: &a {}, b: {<<: *a}}",
        "2: assets.b: YAML 1.2 has no merge key (`<<`); repeat the keys, or share a whole value by `*…`",
    ),
    "key that is no text": (
        "assets: {a: {extra: {[1]: 2}}}",
        "2: assets.a.extra: a key must be plain text; give it a name",
    ),
    "value within itself": (
        "assets: {a: {extra: &x {again: *x}}}",
        "2: assets.a.extra.again: contains itself through an alias (`*…`); write the value out",
    ),
    "invalid YAML": (
        "assets: {a: [b}",
        "2: is not valid YAML (while parsing a flow sequence, expected ',' or ']', but got '}'); correct indentation, brackets or quotes here",
    ),
    "reference that needs quotes": (
        "connections: {lake: {type: ${TYPE}}}",
        "2: is not valid YAML (while parsing a flow mapping, expected ',' or '}', but got '{'); put quotes around the `${…}` here",
    ),
    "tab": (
        "assets:\n\ta: {}",
        "3: is not valid YAML (while scanning for the next token, found character '\\t' that cannot start any token); indent by spaces here, not by a tab",
    ),
    "second document": (
        "---\nassets: {}",
        "2: is not valid YAML (expected a single document in the stream, but found another document); correct indentation, brackets or quotes here",
    ),
    "undefined variable": (
        "assets:\n  a:\n    group: x-${NOBODY_SET_THIS}",
        "4: assets.a.group: the environment variable NOBODY_SET_THIS is not set; set it, or write `${NOBODY_SET_THIS:-default}`",
    ),
    "unreadable secret": (
        "connections:\n  lake:\n    type: lake\n    key: ${file:no/such/secret}",
        "5: connections.lake.key: the file no/such/secret cannot be read (No such file or directory); create it or correct the path",
    ),
    "secret in a file that cannot be": (
        'connections: {lake: {type: lake, key: "${file:a\\0b}"}}',
        "2: connections.lake.key: the file a\0b cannot be read (no file has such a name); create it or correct the path",
    ),
    "half of a character": (
        'assets: {a: {group: "\\ud83d"}}',
        "2: assets.a.group: holds half of a character (a lone surrogate); write the whole character",
    ),
    "half of a character in a name": (
        'assets: {"\\ud83d": {}}',
        "2: assets: a key must be plain text; give it a name",
    ),
    "malformed reference": (
        "assets: {a: {group: '${not a name}'}}",
        "2: assets.a.group: `${` does not begin a reference: write `${NAME}`, `${NAME:-default}` or `${file:/path}`, and `$$` for a plain $",
    ),
}


@pytest.mark.parametrize(("text", "sentence"), CASES.values(), ids=CASES)
def test_a_mistake_is_reported_in_one_sentence(problems: Callable[..., list[str]], text: str, sentence: str) -> None:
    assert problems(text) == [f"watchers.yaml:{sentence}"]


@pytest.mark.parametrize(
    ("first", "sentence"),
    [
        ("assets: {}", "watchers.yaml: version: is missing; add it"),
        ("version: 2", "watchers.yaml:1: version: must be 1, the only version of the format"),
        (
            "version: true",
            "watchers.yaml:1: version: must be 1, the only version of the format",
        ),
    ],
)
def test_the_version_is_checked(tmp_path: Path, refusal: Callable[..., list[str]], first: str, sentence: str) -> None:
    file = tmp_path / "watchers.yaml"
    file.write_text(first)
    assert refusal(file) == [sentence]


def test_an_unexpected_error_is_a_refusal_too(write: Callable[[str], Path], vocabulary: Vocabulary) -> None:
    def fail(_name: str, _isolation: Isolation | None) -> TriggerKind:
        raise RuntimeError("it holds a secret")

    file = write("assets: {a: {watchers: {w: {trigger: clock}}}}")
    with pytest.raises(ConfigurationInvalid) as refused:
        load(file, replace(vocabulary, trigger=fail), {})
    assert str(refused.value) == (f"{file}: cannot be read: reading it raised RuntimeError; undo the last change")
    assert isinstance(refused.value.__cause__, RuntimeError)


def test_all_mistakes_are_reported_at_once_sorted_by_line(problems: Callable[..., list[str]]) -> None:
    text = """\
jobs:
  load:
    spark: {application: load.py, connections: [shop], profil: small}
    schedule: {all: [ordres, {any: []}], timezone: Mars}
    retries: -1
assets:
  orders:
    uri: s3://
    watchers:
      w: {trigger: lake.files, connection: pond, interval: 5, start: noon, batch: {max_file: 1, max_files: 0}}
  Bad name: {group: 3}
connections:
  pond: {type: lake, regin: here, key: ${UNSET}}
settings: {api: {port: -1}}
"""
    found = problems(text.replace("${UNSET}", "'${UNSET}'"))
    assert [problem.split(": ")[:2] for problem in found] == [
        ["watchers.yaml:4", "jobs.load.spark.connections[0]"],
        ["watchers.yaml:4", "jobs.load.spark.profil"],
        ["watchers.yaml:5", "jobs.load.schedule.all[0]"],
        ["watchers.yaml:5", "jobs.load.schedule.all[1].any"],
        ["watchers.yaml:5", "jobs.load.schedule.timezone"],
        ["watchers.yaml:6", "jobs.load.retries"],
        ["watchers.yaml:9", "assets.orders.uri"],
        ["watchers.yaml:11", "assets.orders.watchers.w.batch.max_file"],
        ["watchers.yaml:11", "assets.orders.watchers.w.batch.max_files"],
        ["watchers.yaml:11", "assets.orders.watchers.w.interval"],
        ["watchers.yaml:11", "assets.orders.watchers.w.start"],
        ["watchers.yaml:12", "assets.Bad name"],
        ["watchers.yaml:12", "assets.Bad name.group"],
        ["watchers.yaml:14", "connections.pond.key"],
        ["watchers.yaml:14", "connections.pond.regin"],
        ["watchers.yaml:15", "settings.api.port"],
    ]


def test_an_error_in_a_union_is_reported_in_one_sentence(problems: Callable[..., list[str]]) -> None:
    text = "connections: {pond: {type: lake}}\nassets: {a: {uri: s3://b, watchers: {w: {trigger: lake.files, connection: pond, start: noon}}}}"
    assert problems(text) == ["watchers.yaml:3: assets.a.watchers.w.start: must be `now` or `all` or a whole number"]


def test_no_option_is_reported_missing_that_a_valid_uri_might_imply(problems: Callable[..., list[str]]) -> None:
    text = "connections: {pond: {type: lake}}\nassets: {a: {uri: 's3://', watchers: {w: {trigger: lake.files, connection: pond}}}}"
    assert [problem.split(": ")[1] for problem in problems(text)] == ["assets.a.uri"]


def test_a_reference_to_something_with_a_mistake_of_its_own_is_no_second_mistake(
    problems: Callable[..., list[str]],
) -> None:
    text = "connections: {pond: {type: lake, regin: x}}\nassets: {a: {uri: s3://b, grup: x, watchers: {w: {trigger: lake.files, connection: pond}}}}\njobs: {j: {spark: {application: a.py, connections: [pond]}, schedule: a}}"
    assert [problem.split(": ")[1] for problem in problems(text)] == ["connections.pond.regin", "assets.a.grup"]


def test_the_refusal_is_the_list_of_its_problems() -> None:
    later = Problem(file="b.yaml", line=2, path="jobs.j", message="second")
    sooner = Problem(file="a.yaml", line=None, path="", message="first")
    refused = ConfigurationInvalid([later, sooner])
    assert refused.problems == (sooner, later)
    assert str(refused) == "a.yaml: first\nb.yaml:2: jobs.j: second"
