"""Refusals of an S3 server, with what they mean for the person who runs the watcher."""

from __future__ import annotations

import re
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

from triggers.base import Finding
from triggers.errors import ConfigurationError, SourceUnavailable


@dataclass(frozen=True, kw_only=True)
class S3Failure:
    """A failed request. `code` is AWS's word where there is one; `passing`: a retry may help."""

    code: str
    message: str
    remedy: str
    passing: bool = False

    def __str__(self) -> str:
        return f"{self.code}: {self.message.rstrip('.')}; {self.remedy}"

    def error(self) -> SourceUnavailable | S3Refused:
        return SourceUnavailable(str(self)) if self.passing else S3Refused(self)

    def finding(self, check: str) -> Finding:
        return Finding.error(check, f"{self.code}: {self.message}", self.remedy)


class S3Refused(ConfigurationError):
    """The bucket cannot be listed until a person changes something: AWS's code and the remedy."""

    def __init__(self, failure: S3Failure) -> None:
        super().__init__(str(failure))
        self.failure = failure


_CODE: Final = re.compile(rb"<Code>([^<]*)</Code>")
_MESSAGE: Final = re.compile(rb"<Message>([^<]*)</Message>")
_REGION: Final = re.compile(rb"<Region>([^<]*)</Region>")

_PASSING: Final = frozenset(
    {
        "ExpiredToken",
        "InternalError",
        "OperationAborted",
        "RequestLimitExceeded",
        "RequestTimeout",
        "ServiceUnavailable",
        "SlowDown",
        "Throttling",
        "ThrottlingException",
        "TooManyRequests",
        "TooManyRequestsException",
    }
)
"""Codes of failures that pass by themselves. An expired token passes, too: a profile's credentials are renewed silently."""

_ELSEWHERE: Final = frozenset(
    {"PermanentRedirect", "TemporaryRedirect", "AuthorizationHeaderMalformed", "IllegalLocationConstraintException"}
)

REMEDIES: Final = {
    "AccessDenied": "grant s3:ListBucket on the bucket to the connection's identity",
    "AllAccessDisabled": "ask the bucket's owner",
    "AuthorizationHeaderMalformed": "set the connection's region to the bucket's",
    "ExpiredToken": "sign in again, or renew the connection's credentials",
    "InvalidAccessKeyId": "correct the connection's access_key_id",
    "InvalidBucketName": "correct the watcher's bucket",
    "InvalidToken": "sign in again, or renew the connection's credentials",
    "NoSuchBucket": "correct the watcher's bucket or the connection's endpoint_url, or create the bucket",
    "PermanentRedirect": "set the connection's region, or its endpoint_url, to the bucket's",
    "RequestTimeTooSkewed": "set this machine's clock",
    "SignatureDoesNotMatch": "correct the connection's secret_access_key",
    "SlowDown": "it is tried again; poll less often if this stays",
}
REMEDIES_OF_READING: Final = {
    "AccessDenied": "grant s3:GetObject on the bucket's manifests to the connection's identity",
    "HTTP 403": "check the connection's credentials and that they allow s3:GetObject on the bucket's manifests",
}
"""What to do where an object cannot be read, if that is another thing than for listings."""
_REMEDY_OF_STATUS: Final = {
    401: "check the connection's credentials",
    403: "check the connection's credentials and that they allow s3:ListBucket",
    404: "check the connection's endpoint_url and the watcher's bucket",
    429: "it is tried again; poll less often if this stays",
}
_LONGEST: Final = 500


def failure_of(*, status: int, body: bytes, bucket: str, endpoint: str) -> S3Failure:
    """Judge a response that is no page. `endpoint` names the server in messages."""
    code = _text(_CODE, body) or f"HTTP {status}"
    message = _text(_MESSAGE, body) or f"the server answered without an S3 error document (HTTP {status})"
    remedy = REMEDIES.get(code) or _REMEDY_OF_STATUS.get(status) or "check the connection's endpoint_url"
    was_cut = status == HTTPStatus.OK and b"<?xml".startswith(body[:5])
    failed = status == HTTPStatus.TOO_MANY_REQUESTS or (
        status >= HTTPStatus.INTERNAL_SERVER_ERROR and status != HTTPStatus.NOT_IMPLEMENTED
    )
    passing = code in _PASSING or failed or was_cut
    return S3Failure(code=code, message=f"bucket {bucket!r} at {endpoint}: {message}", remedy=remedy, passing=passing)


def region_hint(*, header: str | None, body: bytes) -> str | None:
    """The region to ask instead, if the response says that the bucket lives elsewhere."""
    return (header or _text(_REGION, body) or None) if _text(_CODE, body) in _ELSEWHERE else None


def _text(pattern: re.Pattern[bytes], body: bytes) -> str:
    match = pattern.search(body)
    return "" if match is None else match[1][:_LONGEST].decode(errors="replace")
