"""`settings.airflow`: signing in, forwarding and listening, and circles through Airflow."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest

from config.errors import ConfigurationInvalid
from config.models import Configuration

pytestmark = pytest.mark.feature("airflow")

TEXT = """\
settings: {{airflow: {{base_url: "http://airflow:8080", {sign_in}, forward: {forward}, listen: {listen}}}}}
assets: {{orders: , customers: , report: }}
jobs:
  load: {{schedule: customers, outlets: [orders], spark: {{application: a.py}}}}
"""


def text(
    sign_in: str = "token: t", forward: str = "{orders: their_orders}", listen: str = "{their_customers: customers}"
) -> str:
    return TEXT.format(sign_in=sign_in, forward=forward, listen=listen)


def test_forward_and_listen_have_defaults(load_text: Callable[..., Configuration]) -> None:
    airflow = load_text(text("user: watcher, password: pass")).settings.airflow
    assert airflow is not None
    assert (airflow.forward, airflow.listen) == ({"orders": "their_orders"}, {"their_customers": "customers"})
    assert airflow.lateness == timedelta(minutes=10)
    assert "pass" not in repr(airflow).replace("password", "")


def test_forward_says_whether_partition_keys_go_along(load_text: Callable[..., Configuration]) -> None:
    plain = load_text(text())
    keyed = load_text(text(forward="{orders: {asset: their_orders, partition_key: true}, report: theirs}"))
    assert keyed.settings.airflow is not None
    long = {name: (each.asset, each.partition_key) for name, each in keyed.settings.airflow.forwards.items()}
    assert long == {"orders": ("their_orders", True), "report": ("theirs", False)}
    assert plain.hash != keyed.hash
    for wrong, sentence in (
        ("{orders: {partition_key: true}}", "settings.airflow.forward.orders.asset"),
        ("{orders: {asset: x, key: true}}", "settings.airflow.forward.orders.key"),
        ("{orders: }", "settings.airflow.forward.orders"),
    ):
        with pytest.raises(ConfigurationInvalid, match=sentence):
            load_text(text(forward=wrong))


@pytest.mark.parametrize("sign_in", ["user: watcher", "password: p", "token: t, user: u, password: p", "lateness: 1m"])
def test_a_token_or_a_user_with_a_password_signs_in(load_text: Callable[..., Configuration], sign_in: str) -> None:
    with pytest.raises(ConfigurationInvalid, match="needs a `token`, or a `user` and a `password`"):
        load_text(text(sign_in))


@pytest.mark.parametrize(
    ("ways", "place"),
    [
        ({"forward": "{order: x}"}, "settings.airflow.forward.order"),
        ({"listen": "{x: order}"}, "settings.airflow.listen.x"),
    ],
)
def test_our_assets_are_known(load_text: Callable[..., Configuration], ways: dict[str, str], place: str) -> None:
    with pytest.raises(ConfigurationInvalid, match=f"{place}: unknown asset `order`; did you mean `orders`"):
        load_text(text(**ways))


@pytest.mark.parametrize(
    ("ways", "warns"),
    [
        ({}, True),
        ({"forward": "{report: theirs}"}, False),
        ({"listen": "{theirs: report}"}, False),
        ({"forward": "{customers: same}", "listen": "{same: customers}"}, False),
        ({"forward": "{orders: same}", "listen": "{same: customers}"}, True),
    ],
)
def test_a_circle_through_airflow_is_a_warning(
    load_text: Callable[..., Configuration], ways: dict[str, str], warns: bool
) -> None:
    warnings = [str(warning) for warning in load_text(text(**ways)).warnings]
    assert len(warnings) == warns
    if warns:
        assert "(Airflow)" in warnings[0]
        assert "load" in warnings[0]


def test_processes_agree_on_forward_and_listen_but_not_on_the_sign_in(load_text: Callable[..., Configuration]) -> None:
    one = load_text(text())
    assert one.hash == load_text(text("user: u, password: p")).hash
    assert one.hash != load_text(text(forward="{orders: elsewhere}")).hash
