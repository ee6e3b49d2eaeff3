"""What a request to the API server ends with when it has no answer of use."""

from __future__ import annotations


class ApiRefused(Exception):
    """The API server answered, and refused. `reason` is Kubernetes' word for it, such as `AlreadyExists`.

    A proxy in between may have refused it, with the same code. It has not these words, so they decide, and not the code.
    """

    def __init__(self, code: int, reason: str, message: str) -> None:
        super().__init__(f"Kubernetes refused the request ({code} {reason}): {message}")
        self.code = code
        self.reason = reason
        self.message = message


class AnswerLost(ConnectionError):
    """The connection ended before the whole answer had come. The request may have taken effect."""


class WatchExpired(Exception):
    """The changes since the list are not kept any more: list again."""
