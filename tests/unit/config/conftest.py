from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

import pytest
from pydantic import BaseModel, ConfigDict, Field, SecretStr, field_validator

from config.errors import ConfigurationInvalid, UnknownClass
from config.models import Configuration
from config.models.values import Duration
from config.names import Isolation
from config.reading.loader import load
from config.vocabulary import TriggerKind, Vocabulary
from triggers.options import facts_of
from watcher.installed import known_settings

Load = Callable[..., Configuration]
Problems = Callable[..., list[str]]
Refusal = Callable[..., list[str]]
Write = Callable[[str], Path]


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class LakeConnection(Strict):
    type: Literal["lake"]
    region: str = "here"
    key: SecretStr | None = None

    @field_validator("region")
    @classmethod
    def check_region(cls, region: str) -> str:
        if region == "nowhere" or "secret" in region:
            raise ValueError(f"there is no region `{region}`; name one that exists")
        return region


class ShopConnection(Strict):
    type: Literal["shop"]
    dsn: SecretStr


class Nothing(Strict):
    pass


class ClusterOptions(Strict):
    queue: str
    priority: int = Field(default=1, ge=1)


class Batch(Strict):
    max_files: int = Field(default=1000, ge=1)


class FilesOptions(Strict):
    bucket: str
    prefix: str = ""
    interval: Duration = timedelta(seconds=10)
    start: Literal["now", "all"] | int = "now"
    batch: Batch = Batch()


class RowsOptions(Strict):
    table: str = "t"


class ClockOptions(Strict):
    pass


def _files_defaults(uri: str) -> Mapping[str, Any]:
    parts = urlsplit(uri)
    if parts.scheme == "x-broken":
        raise ValueError("no bucket can be made of this URI; name one")
    return {"bucket": parts.netloc, "prefix": parts.path[1:]} if parts.scheme == "s3" else {}


TRIGGERS = {
    "lake.files": TriggerKind(options=FilesOptions, connection_type="lake", defaults=_files_defaults, facts=facts_of),
    "shop.rows": TriggerKind(options=RowsOptions, connection_type="shop", defaults=lambda _: {}, facts=facts_of),
    "clock": TriggerKind(options=ClockOptions, connection_type=None, defaults=lambda _: {}, facts=facts_of),
}


def _trigger(name: str, _isolation: Isolation | None) -> TriggerKind:
    if name not in TRIGGERS:
        raise UnknownClass(f"there is no trigger `{name}`", list(TRIGGERS))
    return TRIGGERS[name]


CONNECTIONS: dict[str, type[BaseModel]] = {"lake": LakeConnection, "shop": ShopConnection}


def _connection(name: str) -> type[BaseModel]:
    if name not in CONNECTIONS:
        raise UnknownClass("is no type of connection", list(CONNECTIONS))
    return CONNECTIONS[name]


def _submitter(name: str) -> type[BaseModel]:
    if name not in {"spark-submit", "lake.Cluster"}:
        raise UnknownClass(f"unknown submitter `{name}`", ["spark-submit"])
    return ClusterOptions if name == "lake.Cluster" else Nothing


@pytest.fixture(scope="session")
def vocabulary() -> Vocabulary:
    return Vocabulary(
        trigger=_trigger,
        triggers=TRIGGERS,
        connection=_connection,
        connections=CONNECTIONS,
        submitter=_submitter,
        refusals=lambda _name, _spark, _options: (),
        submitters={"spark-submit": Nothing},
        settings=known_settings,
        add_plugins=lambda *_: None,
    )


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Writes a text to `watchers.yaml`, after `version: 1` on line 1."""

    def write(text: str) -> Path:
        file = tmp_path / "watchers.yaml"
        file.write_text(f"version: 1\n{text}", encoding="utf-8")
        return file

    return write


@pytest.fixture
def load_text(write: Write, vocabulary: Vocabulary) -> Load:
    return lambda text="", **environ: load(write(text), vocabulary, environ)


@pytest.fixture
def refusal(tmp_path: Path, vocabulary: Vocabulary) -> Refusal:
    """The problems of a file or folder, as people see them."""

    def refusal(path: Path, **environ: str) -> list[str]:
        with pytest.raises(ConfigurationInvalid) as refused:
            load(path, vocabulary, environ)
        return [str(problem).replace(f"{tmp_path}/", "") for problem in refused.value.problems]

    return refusal


@pytest.fixture
def problems(write: Write, refusal: Refusal) -> Problems:
    """The problems of a text."""
    return lambda text, **environ: refusal(write(text), **environ)
