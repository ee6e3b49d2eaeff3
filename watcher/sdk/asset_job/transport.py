"""What carries the SDK's calls: the Execution API over HTTP, or a folder that stands in for it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

PATIENCE = 600.0


@dataclass(frozen=True, kw_only=True)
class Answer:
    content: Any = None
    """Decoded; None when it is empty."""
    version: int | None = None
    """Of the entry that was asked for, where entries have one."""


class Transport(ABC):
    """Paths, queries and bodies are the Execution API's, whoever answers. Used by several threads.

    Raises the errors of `errors`: a `Refused` has changed nothing, after `Unreachable` that is unknown.
    """

    @abstractmethod
    def answer(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Any = None,
        patience: float = PATIENCE,
    ) -> Answer:
        """Takes effect once, however often it is repeated within `patience` seconds while nobody answers."""

    def call(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Any = None,
        patience: float = PATIENCE,
    ) -> Any:
        """The content of the answer."""
        return self.answer(method, path, query=query, body=body, patience=patience).content
