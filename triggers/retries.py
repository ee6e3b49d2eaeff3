"""Retries of stamina without its lines in logs and terminals: whoever gives up says what a person should know."""

from __future__ import annotations

from stamina import AsyncRetryingCaller, retry_context
from stamina.instrumentation import set_on_retry_hooks

__all__ = ["AsyncRetryingCaller", "retry_context"]

set_on_retry_hooks(())
