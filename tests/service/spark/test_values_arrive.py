"""Arguments, Spark properties and the environment arrive byte for byte, in cold and warm drivers, in every locale."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from config.models.passing import LONGEST
from tests.contract.submitters import ended, log_of
from tests.unit.submit.plain import workspace
from tests.unit.submit.warm import StartsWarm
from watcher.submit.base import Submission
from watcher.submit.spark_submit import SparkSubmit

pytestmark = pytest.mark.spark

_SIGNS: Final = [chr(code) for code in range(0x21, 0x7F) if not chr(code).isalnum()]
_LETTERS: Final = (
    *("é", "ß", "\u0080", "\u00a0", "Ω", "ж", "ש", "اب", "\u202e", "\u2028", "\u0085", "日本", "€", "\ufeff", "\ufffd"),
    *("e\u0301", "\u00e9", "A\u030a", "👍", "👩\u200d👧", "🇨🇭", "\U0010ffff", "\uffff", "\ufffe", "\ue000", "Zürich"),
)
_WORDS: Final = (
    *("", "a b", "a  b", "a\tb", "a\nb", "a\n\nb", "\nb", "a\n", "\n", "a\x01b", "a\x7f", "a\x1bb", "a\fb", "a\vb"),
    *("$HOME", "${HOME}", "$(id)", "`id`", "~", "~root", "*.py", "/etc/*", "[a-z]", "{a,b}", "!!", "!$", "a;b", "a&b"),
    *("--", "-h", "--help", "--version", "--conf", "--conf=a=b", "--name", "-c", "a=b", "=b", "a==b", "spark.x=1"),
    *('"\'"', '"a b"', "'a b'", "\\\\", "a\\", "\\n", "\\u0041", "\\\n", '\\"', "a\\ b", "C:\\dir\\", "a|b", "a>b"),
    *("#a", "a#b", "!a", "a:b", "%s", "%%", "%n", "&amp;", "<a>", "null", "None", "true", "0", "-1", "1e400", "NaN"),
    *("${spark.app.name}", "${env:HOME}", "${sys:user.dir}", '{"a": "x\\"y"}', "[1, 2]", "a,b", "@file", "file:/a#b"),
    *("x" * 100_000, "é" * 50_000),
)
_BLANKS: Final = (" ", "  ", " a", "a ", "\t", "\ta", "a\t", " \n ", "\x01", "\x01a", "\f")
"""Values that Spark trims: they arrive as arguments and in the environment, and are refused as properties."""
PROPERTIES: Final = tuple(dict.fromkeys((*_SIGNS, *_LETTERS, *_WORDS)))
VALUES: Final = (*PROPERTIES, *_BLANKS)
RECEIVER: Final = """
import json
from pyspark.sql import SparkSession
session = SparkSession.builder.getOrCreate()
conf = dict(session.sparkContext.getConf().getAll())
named = {key: value for key, value in conf.items() if key.startswith("spark.sent.")}
env = {key.decode(): value.hex() for key, value in os.environb.items() if key.startswith(b"SENT_")}
args = [arg.encode("utf-8", "surrogateescape").hex() for arg in sys.argv[2:]]
with open(os.environ["OUTPUT"], "w", encoding="utf-8") as file:
    json.dump({"args": args, "env": env, "conf": named}, file)
"""


@pytest.mark.parametrize("kind", [SparkSubmit, StartsWarm])
@pytest.mark.parametrize("locale", [{"LC_ALL": "C"}, {}, {"LC_ALL": "C.UTF-8"}], ids=["C", "unset", "UTF-8"])
async def test_every_value_arrives(
    tmp_path: Path, new_try: Callable[..., Submission], locale: dict[str, str], kind: type[SparkSubmit]
) -> None:
    assert len(PROPERTIES) > 100
    assert max(len(value.encode()) for value in VALUES) <= LONGEST
    daemon = {name: value for name, value in os.environ.items() if name != "LANG" and not name.startswith("LC_")}
    submitter, output = kind(workspace(tmp_path / "home", {**daemon, **locale})), tmp_path / "received.json"
    env = {f"SENT_{number}": value for number, value in enumerate(VALUES)}
    conf = {f"spark.sent.{number}": value for number, value in enumerate(PROPERTIES)}
    submission = new_try(RECEIVER, conf=conf, env={**env, "OUTPUT": str(output)})
    application = submission.application
    sent = application.running(application.application, (*application.args, *VALUES))
    handle = await submitter.submit(Submission(**{**vars(submission), "application": sent}))
    status = await ended(submitter, handle)
    assert status.exit_code == 0, (await log_of(submitter, handle))[-5000:]
    received = json.loads(output.read_text(encoding="utf-8"))
    assert [bytes.fromhex(each).decode() for each in received["args"]] == list(VALUES)
    assert {name: bytes.fromhex(each).decode() for name, each in received["env"].items()} == env
    assert {name for name in conf if received["conf"].get(name) != conf[name]} == set()
