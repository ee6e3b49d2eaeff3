"""The `settings.airflow` section: the neighbouring Airflow, which events are sent to and read from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Annotated, ClassVar, Final, Self, TypeAlias

from pydantic import Discriminator, Field, SecretStr, Tag, model_validator

from config.errors import KeyPath
from config.models.settings import Exchange, NamedEntries, Settings, SettingsPart
from config.models.values import Address, PositiveDuration
from config.names import Name, did_you_mean
from config.section import Section

NAME: Final = "(Airflow)"
"""Stands among the jobs for whatever Airflow does between the events it is sent and the events it sends back."""
TheirAsset: TypeAlias = Annotated[str, Field(min_length=1, max_length=1500)]


class ForwardConfig(Section):
    asset: TheirAsset
    """Airflow's asset, by name or uri."""
    partition_key: bool = False
    """Whether an event is sent with its partition key; Airflow knows them from 3.2 on."""


def _form_of_forward(given: object) -> str:
    return "long" if isinstance(given, dict | ForwardConfig) else "short"


class AirflowSettings(Section):
    base_url: Address
    """Address of its API server, without `/api/v2`."""
    token: SecretStr | None = None
    """A token for Airflow's API. Give either a token, or `user` and `password`."""
    user: str | None = None
    """Name of the user that signs in at `/auth/token`, and signs in again when the token has expired."""
    password: SecretStr | None = None
    """Password of the user."""
    forward: dict[
        Name,
        Annotated[
            Annotated[TheirAsset, Tag("short")] | Annotated[ForwardConfig, Tag("long")], Discriminator(_form_of_forward)
        ],
    ] = Field(default_factory=dict)
    """Our assets whose events are sent to Airflow, each with the name or uri of Airflow's asset, or with `{asset: THEIRS, partition_key: true}`: then its events keep their partition keys there (Airflow 3.2 and later)."""
    listen: dict[TheirAsset, Name] = Field(default_factory=dict)
    """Airflow's assets, by name or uri, each with the asset of ours that gets their events."""
    lateness: PositiveDuration = timedelta(minutes=10)
    """How long after its timestamp one of Airflow's events may become visible. It also bounds how far its clock may differ."""
    poll_interval: PositiveDuration = timedelta(seconds=5)
    """Time between two polls of the events of an asset in `listen`."""
    timeout: PositiveDuration = timedelta(seconds=10)
    """Maximum time for one request. An event whose request was not answered is looked up before it is sent again."""

    @model_validator(mode="after")
    def _check_sign_in(self) -> Self:
        by_token, by_user = self.token is not None, {self.user is not None, self.password is not None}
        if by_user != {not by_token}:
            raise ValueError("needs a `token`, or a `user` and a `password`")
        return self

    @property
    def forwards(self) -> Mapping[str, ForwardConfig]:
        """The entries of `forward` in their long form."""
        return {
            name: ForwardConfig(asset=given) if isinstance(given, str) else given
            for name, given in self.forward.items()
        }


class AirflowPart(SettingsPart):
    airflow: AirflowSettings | None = None
    """A neighbouring Airflow, which events are sent to and read from."""

    shared: ClassVar[Mapping[str, frozenset[str]]] = {"airflow": frozenset({"forward", "listen"})}

    @classmethod
    def is_configured(cls, settings: Settings) -> bool:
        return settings.part(cls).airflow is not None

    @classmethod
    def faults(cls, settings: Settings, entries: NamedEntries) -> Iterator[tuple[KeyPath, str]]:
        """Yield the places that name an unknown asset of ours."""
        airflow = settings.part(cls).airflow
        if airflow is None:
            return
        ours = {("forward", name): name for name in airflow.forward}
        ours |= {("listen", theirs): name for theirs, name in airflow.listen.items()}
        for place, name in ours.items():
            if name not in entries.assets:
                yield ("settings", "airflow", *place), f"unknown asset `{name}`; {did_you_mean(name, entries.assets)}"

    @classmethod
    def exchanges(cls, settings: Settings) -> Mapping[str, Exchange]:
        airflow = settings.part(cls).airflow
        if airflow is None:
            return {}
        return {NAME: Exchange(sent=frozenset(airflow.forward), received=frozenset(airflow.listen.values()))}
