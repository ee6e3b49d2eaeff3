"""What a request to the API server ends with when it has no answer of use."""

from __future__ import annotations


class ApiRefused(Exception):
    """The API server answered, and refused. `reason` is Kubernetes' word for it, such as `AlreadyExists`."""

    def __init__(self, code: int, reason: str, message: str) -> None:
        super().__init__(f"Kubernetes refused the request ({code} {reason}): {message}")
        self.code = code
        self.reason = reason
        self.message = message


class AnswerLost(ConnectionError):
    """The connection ended before the whole answer had come. The request may have taken effect."""


class WatchExpired(Exception):
    """The changes since the list are not kept any more: list again."""
