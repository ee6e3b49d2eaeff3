"""A submitter as a third party would write it: drivers run on its own cluster. It imports only the contract."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import httpx
from pydantic import BaseModel

from watcher.submit.base import (
    Addresses,
    Attachment,
    Finding,
    Handle,
    Needs,
    SparkApplication,
    Status,
    Submission,
    SubmitError,
    Submitter,
    TryKey,
)


class QueueOptions(BaseModel, extra="forbid"):
    """Keys beside `submitter` in a job's `spark` section."""

    queue: str = "default"


class RemoteCluster(Submitter):
    Options = QueueOptions
    ends_with_home = False

    async def submit(self, submission: Submission) -> Handle:
        application = submission.application
        if not Path(application.application).is_file():
            raise SubmitError(f"{application.application} does not exist: create it")
        order = {
            "arguments": [application.application, *application.args],
            "environment": {**application.env, "QUEUE": getattr(application.options, "queue", "default")},
            "context": submission.context,
            "sdk": base64.b64encode(self.workspace.sdk_archive().read_bytes()).decode(),
        }
        await self._call("PUT", submission.tag, json=order)
        return {"driver": submission.tag}

    async def attach(self, key: TryKey, tag: str, handle: Handle | None) -> Handle | Attachment:  # noqa: ARG002
        if (await self._call("GET", tag)).status_code == httpx.codes.NOT_FOUND:
            return Attachment.ABSENT if handle is None else Attachment.LOST
        return {"driver": tag}

    async def poll(self, handle: Handle) -> Status:
        answer = await self._call("GET", handle["driver"])
        if answer.status_code == httpx.codes.NOT_FOUND:
            return Status(phase="exited", reason="the cluster knows nothing of this driver any more")
        driver = answer.json()
        return Status(phase="running") if driver["running"] else Status(phase="exited", exit_code=driver["exit_code"])

    async def cancel(self, handle: Handle, grace: float) -> None:
        await self._call("DELETE", handle["driver"], grace_ms=round(grace * 1000))

    async def logs(self, handle: Handle, offset: int) -> AsyncIterator[bytes]:
        yield (await self._call("GET", f"{handle['driver']}/log", offset=offset)).content

    def needs(self, application: SparkApplication) -> Needs:  # noqa: ARG002
        return Needs()

    def api_url(self, addresses: Addresses) -> str:
        if addresses.public is None:
            raise SubmitError("drivers on the cluster need settings.api.base_url: set it to an address they can reach")
        return addresses.public

    async def check(self, application: SparkApplication) -> Sequence[Finding]:  # noqa: ARG002
        if "STAND_IN_CLUSTER" in self.workspace.environment:
            return ()
        return [Finding(check="cluster", level="error", message="STAND_IN_CLUSTER is not set", remedy="set it")]

    async def _call(self, method: str, path: str, *, json: Any = None, **parameters: Any) -> httpx.Response:
        async with httpx.AsyncClient(base_url=self.workspace.environment["STAND_IN_CLUSTER"], timeout=60) as client:
            answer = await client.request(method, f"/drivers/{path}", json=json, params=parameters)
        if answer.status_code != httpx.codes.NOT_FOUND:
            answer.raise_for_status()
        return answer
