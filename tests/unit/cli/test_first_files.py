"""`watcher init` derives its first files from a source and a target."""

from __future__ import annotations

from pathlib import Path

import pytest

from watcher.features.init.first_files import Endpoint, PlaceInvalid, check_apart, source_of, target_of

HERE = Path("/work/here")


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("inbox", Endpoint(kind="folder", uri="file:///work/here/inbox", name="inbox")),
        ("/data/My Orders", Endpoint(kind="folder", uri="file:///data/My%20Orders", name="my_orders")),
        ("file:///data/2026", Endpoint(kind="folder", uri="file:///data/2026", name="data_2026")),
        ("s3://lake/raw/orders", Endpoint(kind="s3", uri="s3://lake/raw/orders/", name="orders")),
        ("s3://lake", Endpoint(kind="s3", uri="s3://lake/", name="lake")),
        (
            "postgres://me:secret@db:5433/shop/sales/customers",
            Endpoint(
                kind="postgres",
                uri="postgres://db:5433/shop/sales/customers",
                name="customers",
                dsn="postgresql://me@db:5433/shop",
                table="sales.customers",
            ),
        ),
        (
            "postgresql://db/shop/customers",
            Endpoint(
                kind="postgres",
                uri="postgres://db/shop/public/customers",
                name="customers",
                dsn="postgresql://db/shop",
                table="public.customers",
            ),
        ),
    ],
)
def test_a_source_becomes_an_asset_without_its_password(text: str, place: Endpoint) -> None:
    assert source_of(text, HERE) == place
    assert "secret" not in repr(place)


@pytest.mark.parametrize(
    "text", ["", "kafka://topic", "s3:///orders", "postgres://db/shop", "postgres:///shop/public/t"]
)
def test_a_place_that_no_trigger_watches_is_refused_as_a_source(text: str) -> None:
    with pytest.raises(PlaceInvalid):
        source_of(text, HERE)


def test_a_target_is_a_place_for_parquet_outside_of_the_source() -> None:
    assert target_of("s3://lake/orders/", HERE).uri == "s3://lake/orders"
    with pytest.raises(PlaceInvalid, match="writes files of a table"):
        target_of("postgres://db/shop/public/t", HERE)
    for source, target in (("in", "in"), ("in", "in/out"), ("s3://b", "s3://b/out")):
        with pytest.raises(PlaceInvalid, match="each load would start the next"):
            check_apart(source_of(source, HERE), target_of(target, HERE))
    check_apart(source_of("in", HERE), target_of("in2", HERE))
