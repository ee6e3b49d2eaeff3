from __future__ import annotations

import string

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from config.models.uris import credentials_in, names_credential, normalise


@pytest.mark.parametrize(
    ("uri", "normalised"),
    [
        ("s3://landing/orders/", "s3://landing/orders"),
        ("S3://Landing/Orders", "s3://Landing/Orders"),
        ("s3://landing", "s3://landing/"),
        ("s3://landing/a%20b", "s3://landing/a%20b"),
        ("s3://landing/a?b=2&a=1#part", "s3://landing/a?a=1&b=2"),
        ("postgres://shop/shop/public/customers", "postgres://shop:5432/shop/public/customers"),
        ("postgres://shop:/shop/public/customers", "postgres://shop:5432/shop/public/customers"),
        ("postgres://shop:6000/shop/public/customers/", "postgres://shop:6000/shop/public/customers"),
        ("postgresql://shop/shop/public/customers", "postgres://shop:5432/shop/public/customers"),
        ("file:///data/inbox/", "file:///data/inbox"),
        ("file:/data/inbox", "file:///data/inbox"),
        ("file:////data/inbox", "file:///data/inbox"),
        ("https://example.org/x/", "https://example.org/x"),
        ("x-mine://Anything/At%20All/?b&a#c", "x-mine://Anything/At%20All/?b&a#c"),
        ("X-Mine://x/", "X-Mine://x/"),
        ("//example/asset", "//example/asset"),
        ("a/relative/path/", "a/relative/path/"),
        ("orders", "orders"),
    ],
)
def test_a_uri_is_normalised_as_airflow_does(uri: str, normalised: str) -> None:
    assert normalise(uri) == normalised


@pytest.mark.parametrize(
    ("uri", "part_of_the_sentence"),
    [
        ("", "1 to 1500 characters"),
        ("x" * 1501, "1 to 1500 characters"),
        ("èxample_datašet", "percent-encode"),
        ("x-mine://è", "percent-encode"),
        ("two words", "percent-encode"),
        ("100%", "percent-encode"),
        ("s3://b/%zz", "percent-encode"),
        ("s3://b/\n", "percent-encode"),
        ("http://[x", "is not a URI"),
        ("airflow://x", "reserved"),
        ("AIRFLOW:x", "reserved"),
        ("s3://", "bucket"),
        ("s3:/b/x", "bucket"),
        ("postgres://shop", "names one table"),
        ("postgres://shop/shop/customers", "names one table"),
        ("postgres://shop/shop//customers", "names one table"),
        ("postgres:///shop/public/customers", "names one table"),
        ("postgres://shop:port/shop/public/customers", "number up to 65535"),
        ("postgres://shop:70000/shop/public/customers", "number up to 65535"),
        ("file://data/inbox", "three slashes"),
        ("file:inbox", "three slashes"),
    ],
)
def test_an_invalid_uri_is_refused_with_a_reason(uri: str, part_of_the_sentence: str) -> None:
    with pytest.raises(ValueError, match=part_of_the_sentence):
        normalise(uri)


@pytest.mark.parametrize(
    "uri",
    [
        "s3://user:hunter22@bucket/x",
        "s3://hunter22@bucket/x",
        "//user:hunter22@host/x",
        "x-mine://user:hunter22@host/x",
        "jdbc:postgresql://user:hunter22@host/x",
        "https://host/x?password=hunter22",
        "https://host/x?X-Amz-Signature=hunter22",
        "https://host/x?a=1&sig=hunter22",
        "x-mine:AKIAHUNTER2200000000",
    ],
)
def test_a_credential_in_a_uri_is_refused_without_repeating_it(uri: str) -> None:
    with pytest.raises(ValueError, match="credential") as refused:
        normalise(uri)
    assert "hunter22" not in str(refused.value).lower()


URIS = st.text(string.ascii_letters + string.digits + "-._~:/?#[]@!$&'()*+,;=%", max_size=40)
SCHEMES = st.sampled_from(["s3://", "postgres://", "file:", "https://", "x-y:", "gs://", "", "//", "urn:"])


@example(scheme="gs://", rest="/")
@example(scheme="urn:", rest="//x")
@example(scheme="file:", rest="////x")
@given(scheme=SCHEMES, rest=URIS)
def test_normalising_twice_changes_nothing(scheme: str, rest: str) -> None:
    try:
        once = normalise(scheme + rest)
    except ValueError:
        return
    assert normalise(once) == once


@pytest.mark.parametrize(
    "key",
    [
        "password",
        "db_password",
        "PASSWORD",
        "apiKey",
        "api-key",
        "clientSecret",
        "access_token",
        "X-Amz-Signature",
        "aws_access_key_id",
        "credentials",
    ],
)
def test_a_key_that_names_a_credential(key: str) -> None:
    assert names_credential(key)


@pytest.mark.parametrize(
    "key", ["team", "token_count", "tokenizer", "secretary", "key", "primary_key", "keyword", "author"]
)
def test_a_key_that_names_no_credential(key: str) -> None:
    assert not names_credential(key)


def test_credentials_are_found_by_key_and_by_form() -> None:
    extra = {
        "team": "trainees",
        "password": "",
        "token": None,
        "secret": 5,
        "nested": [{"api_key": "x"}, "postgres://u:p@h/d", "ssh://git@host/x"],
        "dsn": "host=h password=p",
        "pem": "-----BEGIN RSA PRIVATE KEY-----\n…",
        "id": "AKIAABCDEFGHIJKLMNOP",
    }
    assert [*credentials_in(extra)] == [("nested", 0, "api_key"), ("nested", 1), ("dsn",), ("pem",), ("id",)]
