"""Failures between us and S3: retried, or reported with AWS's code and the remedy."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import ReadOnlyCredentials
from pydantic import ValidationError

from tests.servers import S3Server
from tests.service.s3.conftest import Front, Put, error, new_files, page
from tests.unit.triggers_files.dict_host import DictHost
from triggers.errors import SourceUnavailable
from triggers.s3.clock import ENOUGH
from triggers.s3.connection import S3Connection
from triggers.s3.failures import S3Refused
from triggers.s3.listing import S3Client

pytestmark = pytest.mark.service


@pytest.fixture
async def through_front(through_front: S3Client, front: Front, bucket: str) -> S3Client:
    """A client that knows the time at the server."""
    await through_front.ask_time(bucket, "")
    front.requests.clear()
    return through_front


Connect = Callable[..., S3Connection]


async def one_poll(client: S3Client, bucket: str) -> list[str]:
    host = DictHost()
    await host.run(new_files(client, bucket, start="all"))
    return [file["key"] for file in host.files]


@pytest.mark.parametrize(
    "fault",
    [
        error(503, "SlowDown", "Please reduce your request rate."),
        error(500, "InternalError"),
        error(200, "InternalError"),
        error(503, "XMinioServerNotInitialized"),
        error(429, "Calm"),
        page(lambda body: body[:-30]),
        page(lambda body: body[:60]),
        page(lambda _body: b""),
        page(lambda body: body.replace(b"<Size>", b"<Siz>")),
    ],
    ids=[
        "slow-down",
        "internal",
        "internal-as-200",
        "of-minio",
        "too-many",
        "truncated",
        "hardly",
        "empty",
        "malformed",
    ],
)
async def test_a_passing_failure_is_retried(
    through_front: S3Client, front: Front, bucket: str, put: Put, fault: Any
) -> None:
    put("a")
    front.script += [fault, fault]
    assert await one_poll(through_front, bucket) == ["a"]
    assert len(front.requests) == 3


async def test_a_reset_connection_is_retried(through_front: S3Client, front: Front, bucket: str, put: Put) -> None:
    put("a")

    def reset(request: web.Request, _body: bytes) -> None:
        assert request.transport is not None
        request.transport.abort()

    front.script.append(reset)
    assert await one_poll(through_front, bucket) == ["a"]


async def test_a_lasting_failure_is_reported_with_its_code(through_front: S3Client, front: Front, bucket: str) -> None:
    front.script += [error(503, "SlowDown", "Please reduce your request rate.")] * 3
    with pytest.raises(SourceUnavailable, match=r"SlowDown: .*Please reduce your request rate; it is tried again"):
        await one_poll(through_front, bucket)


async def test_a_missing_bucket(client: S3Client) -> None:
    with pytest.raises(S3Refused, match=r"NoSuchBucket: .*'nowhere'.*; correct the watcher's bucket"):
        await one_poll(client, "nowhere")
    (finding,) = await new_files(client, "nowhere").check()
    assert finding.level == "error"
    assert finding.message.startswith("NoSuchBucket")
    assert "create the bucket" in finding.remedy


@pytest.mark.parametrize(
    ("status", "code", "remedy"),
    [
        (403, "AccessDenied", "grant s3:ListBucket"),
        (403, "InvalidAccessKeyId", "correct the connection's access_key_id"),
        (403, "SignatureDoesNotMatch", "correct the connection's secret_access_key"),
        (403, "RequestTimeTooSkewed", "set this machine's clock"),
        (403, "SomethingNew", "s3:ListBucket"),
        (501, "NotImplemented", "endpoint_url"),
    ],
)
async def test_a_refusal_is_reported_at_once_with_its_remedy(
    through_front: S3Client, front: Front, bucket: str, status: int, code: str, remedy: str
) -> None:
    front.script.append(error(status, code))
    with pytest.raises(S3Refused) as refused:
        await one_poll(through_front, bucket)
    assert (refused.value.failure.code, remedy in refused.value.failure.remedy) == (code, True)
    assert len(front.requests) == 1


async def test_an_endpoint_where_no_server_listens(connect: Connect) -> None:
    async with connect(endpoint_url="http://127.0.0.1:1").open() as client:
        with pytest.raises(
            SourceUnavailable,
            match=r"^Unreachable: http://127.0.0.1:1 could not be reached \(Connection refused\); check the connection's endpoint_url",
        ):
            await new_files(client, "landing").check()


async def test_an_endpoint_that_is_not_an_s3_server(through_front: S3Client, front: Front, bucket: str) -> None:
    front.script.append(lambda _request, _body: web.Response(text="<html>console</html>"))
    (finding,) = await new_files(through_front, bucket).check()
    assert (finding.level, finding.remedy) == ("error", "check the connection's endpoint_url")


async def test_an_endpoint_that_speaks_no_tls(connect: Connect, front: Front) -> None:
    async with connect(endpoint_url=front.endpoint.replace("http:", "https:")).open() as client:
        (finding,) = await new_files(client, "landing").check()
    assert "correct endpoint_url" in finding.remedy


async def test_a_server_without_a_clock(through_front: S3Client, front: Front, bucket: str) -> None:
    def undated(_request: web.Request, body: bytes) -> web.Response:
        response = web.Response(body=body)
        response.headers["Date"] = ""
        return response

    front.script += [undated]
    (finding,) = await new_files(through_front, bucket).check()
    assert finding.message.startswith("NoDate")


async def test_a_listing_out_of_order_is_refused(through_front: S3Client, front: Front, bucket: str, put: Put) -> None:
    put("a", "b")
    front.script.append(page(lambda body: body.replace(b"<Key>a<", b"<Key>c<")))
    with pytest.raises(S3Refused, match=r"OutOfOrder: .*; use a general purpose bucket"):
        await one_poll(through_front, bucket)


async def test_a_bucket_in_another_region_is_listed_there(
    through_front: S3Client, front: Front, bucket: str, put: Put
) -> None:
    put("a")
    front.script.append(error(301, "PermanentRedirect", headers={"x-amz-bucket-region": "eu-west-1"}))
    assert await one_poll(through_front, bucket) == ["a"]
    assert await one_poll(through_front, bucket) == ["a"]
    assert [_scope(request)[2] for request in front.requests] == ["us-east-1", "eu-west-1", "eu-west-1"]


async def test_the_region_may_stand_in_the_error(through_front: S3Client, front: Front, bucket: str, put: Put) -> None:
    put("a")
    text = "<Error><Code>AuthorizationHeaderMalformed</Code><Region>eu-west-1</Region></Error>"
    front.script.append(lambda _request, _body: web.Response(status=400, text=text))
    assert await one_poll(through_front, bucket) == ["a"]
    assert _scope(front.requests[-1])[2] == "eu-west-1"


async def test_a_redirect_in_circles_ends(through_front: S3Client, front: Front, bucket: str) -> None:
    front.script += [error(301, "PermanentRedirect", headers={"x-amz-bucket-region": "eu-west-1"})] * 2
    with pytest.raises(S3Refused, match=r"PermanentRedirect: .*; set the connection's region"):
        await one_poll(through_front, bucket)


async def test_a_redirect_to_somewhere_is_not_followed(through_front: S3Client, front: Front, bucket: str) -> None:
    front.script.append(error(307, "TemporaryRedirect", headers={"Location": f"{front.endpoint}/elsewhere"}))
    with pytest.raises(S3Refused, match="TemporaryRedirect"):
        await one_poll(through_front, bucket)
    assert len(front.requests) == 1


async def test_requests_are_signed_as_sent(
    connect: Connect, front: Front, bucket: str, put: Put, s3_server: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server decodes the query and encodes it again its own way before it compares signatures."""
    monkeypatch.setattr("triggers.s3.listing.MAX_KEYS", 1)
    put("p q/a b+c&d=e%41~*()'\"/ü", "p q/z")
    async with connect(endpoint_url=front.endpoint, requester_pays=True).open() as client:
        host = DictHost()
        await host.run(new_files(client, bucket, start="all", prefix="p q/"))
    assert len(front.requests) == 2 + ENOUGH
    for request in front.requests:
        assert _signature(request.headers) == _expected_signature(request, s3_server)
        assert request.headers["x-amz-request-payer"] == "requester"


async def test_anonymous_requests_are_not_signed(connect: Connect, front: Front, bucket: str, put: Put) -> None:
    put("a")
    anonymous = {"access_key_id": None, "secret_access_key": None, "anonymous": True}
    async with connect(endpoint_url=front.endpoint, **anonymous).open() as client:
        assert await one_poll(client, bucket) == ["a"]
    assert "Authorization" not in front.requests[0].headers


@pytest.fixture
def aws_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    return tmp_path / "credentials"


def profile(key: str, token: str) -> str:
    return f"[night]\naws_access_key_id = {key}\naws_secret_access_key = s\naws_session_token = {token}\n"


async def test_credentials_of_a_profile(connect: Connect, front: Front, bucket: str, put: Put, aws_files: Path) -> None:
    put("a")
    aws_files.write_text(profile("first", "one"))
    nobody = {"access_key_id": None, "secret_access_key": None}
    async with connect(endpoint_url=front.endpoint, profile="night", **nobody).open() as client:
        assert await one_poll(client, bucket) == ["a"]
        assert _scope(front.requests[-1])[0] == "first"
        assert front.requests[-1].headers["X-Amz-Security-Token"] == "one"
        aws_files.write_text(profile("second", "two"))
        front.script.append(error(400, "ExpiredToken", "The provided token has expired."))
        assert await one_poll(client, bucket) == ["a"], "read again"
        assert _scope(front.requests[-1])[0] == "second"


async def test_no_credentials_at_all(connect: Connect) -> None:
    async with connect(access_key_id=None, secret_access_key=None).open() as client:
        (finding,) = await new_files(client, "landing").check()
    assert finding.message.startswith("NoCredentials")
    assert "access_key_id" in finding.remedy


async def test_a_profile_that_does_not_exist(connect: Connect) -> None:
    async with connect(access_key_id=None, secret_access_key=None, profile="absent").open() as client:
        (finding,) = await new_files(client, "landing").check()
    assert finding.message.startswith("ProfileNotFound")
    assert "profile" in finding.remedy


async def test_a_role_is_assumed(
    connect: Connect, front: Front, bucket: str, put: Put, s3_server: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    put("a")
    monkeypatch.setenv("AWS_ENDPOINT_URL_STS", s3_server.endpoint)
    role = "arn:aws:iam::123456789012:role/reader"
    async with connect(endpoint_url=front.endpoint, role_arn=role).open() as client:
        assert await one_poll(client, bucket) == ["a"]
        assert await one_poll(client, bucket) == ["a"]
    keys = {_scope(request)[0] for request in front.requests}
    assert len(keys) == 1
    assert keys != {s3_server.access_key}
    assert "X-Amz-Security-Token" in front.requests[0].headers


async def test_a_role_that_cannot_be_assumed(connect: Connect, front: Front, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL_STS", front.endpoint)
    text = "<ErrorResponse><Error><Code>AccessDenied</Code><Message>not you</Message></Error></ErrorResponse>"
    front.script.append(lambda _request, _body: web.Response(status=403, text=text))
    async with connect(role_arn="arn:aws:iam::123456789012:role/reader").open() as client:
        (finding,) = await new_files(client, "landing").check()
    assert finding.message == "AccessDenied: not you"
    assert "role_arn" in finding.remedy


async def test_addresses_follow_the_style(connect: Connect) -> None:
    async def address(**settings: Any) -> str:
        async with connect(**settings).open() as client:
            return (await client.requests.addresses.address_of("landing", None)).url

    path, virtual = "http://s3.local/landing", "http://landing.s3.local/"
    assert await address(endpoint_url="http://s3.local/") == path
    assert await address(endpoint_url="http://s3.local/", addressing_style="virtual") == virtual
    assert await address(endpoint_url="http://s3.local/below") == "http://s3.local/below/landing"
    aws = {"endpoint_url": None, "region": "eu-west-1"}
    assert await address(**aws) == "https://landing.s3.eu-west-1.amazonaws.com/"
    assert await address(**aws, addressing_style="path") == "https://s3.eu-west-1.amazonaws.com/landing"
    assert await address(endpoint_url=None, region="cn-north-1") == "https://landing.s3.cn-north-1.amazonaws.com.cn/"


async def test_the_description_of_the_service_is_read_once_for_all_connections(connect: Connect) -> None:
    async with connect().open() as first, connect().open() as second:
        await first.requests.addresses.address_of("landing", None)
        tracemalloc.start()
        try:
            await second.requests.addresses.address_of("landing", None)
            memory, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert memory < 2_000_000  # bytes; read again they are eleven millions


async def test_a_proxy_of_the_environment_is_used(
    connect: Connect, front: Front, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", front.endpoint)
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    async with connect(endpoint_url="http://s3.invalid").open() as client:
        assert (await client.requests.addresses.address_of("landing", None)).proxy == front.endpoint
    monkeypatch.setenv("no_proxy", "s3.invalid")
    async with connect(endpoint_url="http://s3.invalid").open() as client:
        assert (await client.requests.addresses.address_of("landing", None)).proxy is None


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"endpoint_url": "127.0.0.1:9000"}, "must start with http"),
        ({"endpoint_url": "http://key:secret@host"}, "must not hold credentials"),
        ({"secret_access_key": None}, "belong together"),
        ({"anonymous": True}, "anonymous excludes"),
        ({"profile": "p"}, "exclude each other"),
        ({"adressing_style": "path"}, "Extra inputs"),
    ],
)
def test_options_that_cannot_work_are_refused_with_a_sentence(
    connect: Connect, changed: Mapping[str, Any], sentence: str
) -> None:
    with pytest.raises(ValidationError, match=sentence):
        connect(**changed)


def test_secrets_are_not_shown(connect: Connect, s3_server: S3Server) -> None:
    shown = repr(connect()) + connect().model_dump_json()
    assert s3_server.secret_key not in shown
    assert s3_server.access_key not in shown


def _scope(request: web.Request) -> list[str]:
    """Access key, date, region, service."""
    return request.headers["Authorization"].partition("Credential=")[2].partition(",")[0].split("/")


def _signature(headers: Mapping[str, str]) -> str:
    return headers["Authorization"].rpartition("Signature=")[2]


def _expected_signature(request: web.Request, server: S3Server) -> str:
    signed = request.headers["Authorization"].partition("SignedHeaders=")[2].partition(",")[0].split(";")
    rebuilt = AWSRequest(
        method=request.method,
        url=f"http://{request.host}{request.rel_url.raw_path}",
        params=dict(request.query),
        headers={name: request.headers[name] for name in signed if name != "host"},
    )
    rebuilt.context["timestamp"] = request.headers["X-Amz-Date"]
    auth = S3SigV4Auth(ReadOnlyCredentials(server.access_key, server.secret_key, None), "s3", server.region)
    text = auth.string_to_sign(rebuilt, auth.canonical_request(rebuilt))
    signature: str = auth.signature(text, rebuilt)
    return signature
