"""The value of a secret is in no message, no repr and no dump."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from config.models import Configuration

SECRET = "hunter22-secret-of-at-least-32-bytes"


@pytest.mark.parametrize(
    "text",
    [
        "connections: {lake: {type: lake, region: '${SECRET}'}}",  # a validator that repeats its input
        "connections: {lake: {type: lake, region: 'x-${SECRET}'}}",
        "connections: {lake: {type: '${SECRET}'}}",
        "connections: {lake: {type: shop, dsn: ['${SECRET}']}}",
        "assets: {a: {watchers: {w: {trigger: '${SECRET}'}}}}",
        "assets: {a: {uri: s3://b, watchers: {w: {trigger: lake.files, connection: '${SECRET}'}}}}",
        "assets: {a: {uri: 's3://u:${SECRET}@b/x'}}",
        "assets: {a: {uri: 's3://b/x?X-Amz-Signature=${SECRET}'}}",
        "assets: {a: {extra: {password: '${SECRET}'}}}",
        "jobs: {j: {spark: {application: a.py}, schedule: '${SECRET}'}}",
        "jobs: {j: {spark: {application: a.py, env: {X: ['${SECRET}']}, profile: '${SECRET}'}}}",
        "settings: {database: {url: '${SECRET}'}}",
        "settings: {api: {secret: ['${SECRET}'], port: '${SECRET}'}}",
    ],
)
def test_no_message_repeats_what_came_from_outside(problems: Callable[..., list[str]], text: str) -> None:
    assert SECRET not in "\n".join(problems(text, SECRET=SECRET))


def test_a_message_shows_the_reference_instead(problems: Callable[..., list[str]]) -> None:
    assert problems(
        "connections: {lake: {type: '${SECRET}'}}\nassets: {a: {uri: s3://b, watchers: {w: {trigger: lake.files, connection: '${SECRET}'}}}}",
        SECRET=SECRET,
    )[-1] == ("watchers.yaml:3: assets.a.watchers.w.connection: unknown connection `${SECRET}`; known: `lake`")


def test_a_secret_written_in_the_file_is_not_repeated_either(problems: Callable[..., list[str]]) -> None:
    text = f"connections: {{shop: {{type: shop, dsn: [{SECRET}]}}}}\nsettings: {{database: {{url: '{SECRET}'}}}}"
    assert SECRET not in "\n".join(problems(text))


def test_a_secret_in_the_environment_is_not_repeated(problems: Callable[..., list[str]]) -> None:
    assert SECRET not in problems("", WATCHER_SETTINGS__DATABASE__URL=f"mysql://u:{SECRET}@h/d")[0]


def test_neither_repr_nor_dump_shows_a_secret(load_text: Callable[..., Configuration]) -> None:
    configuration = load_text(
        """\
settings:
  api: {secret: "${SECRET}"}
  database: {url: "postgresql+asyncpg://u:${SECRET}@h/d"}
  store: {options: {url: "redis://:${SECRET}@r"}}
connections: {shop: {type: shop, dsn: "${SECRET}"}}
jobs: {j: {spark: {application: a.py, env: {X: "${SECRET}"}}}}
""",
        SECRET=SECRET,
    )
    assert SECRET not in repr(configuration)
    dump = configuration.model_dump(mode="json", exclude={"settings": {"store"}})
    assert SECRET not in json.dumps(dump)
