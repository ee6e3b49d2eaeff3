"""Tries as pods: created once, found again, stopped, forgotten. Every method may be called again after a crash at any point.

The order is Secret, pod, owner of the Secret. The pod names its Secret, so a pod that is posted late, by a daemon that was
frozen meanwhile, cannot start once the try was answered `ABSENT`: its Secret was deleted before that answer. A daemon that
was frozen before it created the Secret is told by the database, which it asks in between.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final

import anyio

from config.features.kubernetes.settings import DriverPod
from watcher.submit.base import Attachment, Handle, NotYet, Status, Submission, SubmitError
from watcher.submit.kubernetes import manifest, names
from watcher.submit.kubernetes.api import PodApi
from watcher.submit.kubernetes.manifest import DriverCommand, LeaseTimes, Place
from watcher.submit.kubernetes.pod_state import (
    has_started,
    is_out_of_sight,
    overdue,
    status_of,
    with_start,
    without_node,
)
from watcher.submit.kubernetes.refusals import ApiRefused
from watcher.submit.kubernetes.removal import of_this_object, remove

QUIET_FOR: Final = 30.0
"""Seconds without a renewal after which a pod is read, and not looked up in the watch, which may have broken off unnoticed."""
LOOK_EVERY: Final = 10.0
"""The least number of seconds between two questions to the database when a driver renewed its lease last."""
_CHECK_EVERY: Final = 0.5
_GONE: Final = "the pod is gone without an exit code: it was deleted by force, or together with its node"


@dataclass(frozen=True, kw_only=True)
class PodTries:
    """The tries of one installation in one namespace."""

    api: PodApi
    place: Place
    silence: Callable[[str], Awaitable[float]]
    """Returns the seconds since the try with this tag was created or last renewed, whichever is later."""
    was_renewed: Callable[[str], Awaitable[bool]]
    """Returns whether a driver of the try with this tag was ever granted its lease. None starts before that."""
    is_ours: Callable[[str], Awaitable[bool]]
    """Returns whether this home may still start the try with this tag, by the metadata database."""
    warning: Callable[[str], str] = lambda _uid: ""
    """Returns what the cluster's events say of the pod with this uid, or ''."""
    lease: LeaseTimes = field(default_factory=LeaseTimes)
    _look_at: dict[str, float] = field(default_factory=dict)
    """When the database is next asked for the renewals of a pod's driver, by the pod's uid."""

    async def submit(
        self, submission: Submission, job: DriverPod, command: DriverCommand, files: Mapping[str, bytes]
    ) -> Handle:
        """Create the try's objects, or return the handle of its pod. Raises `SubmitError`."""
        existing = await self.api.read("pods", names.pod_name(submission.tag))
        if existing is not None and not await self._withdraw(existing, submission.tag):
            return self._handle(existing, submission.tag)
        secret = manifest.secret(submission, self.place, command, files)
        await self._create_secret(secret, submission.tag)
        if not await self.is_ours(submission.tag):
            # Asked once the Secret exists: whoever took the try over before deletes what was there before that.
            await self._delete_secrets(names.pod_name(submission.tag))
            raise SubmitError("another home has taken the try over, or it has ended; nothing was started")
        pod = await self._create_pod(manifest.pod(submission, self.place, job), submission.tag)
        await self.api.change("secrets", secret["metadata"]["name"], manifest.owned_by(pod))
        return self._handle(pod, submission.tag)

    async def attach(self, tag: str, handle: Handle | None) -> Handle | Attachment:
        """Find the try's pod. One that is gone may still run, and is found until that is over. Raises `SubmitError` for a stranger's."""
        pod = await self._own_pod(tag, handle)
        if pod is not None:
            return self._handle(pod, tag)
        if handle is not None:
            if await self.silence(tag) < self.lease.silent_for:
                return handle
            await self._delete_executors(handle)
            return Attachment.RESTARTED
        await self._delete_secrets(names.pod_name(tag))
        pod = await self._own_pod(tag, None)
        if pod is None or await self._withdraw(pod, tag):
            return await self._without_pod(tag)
        return self._handle(pod, tag)

    async def _without_pod(self, tag: str) -> Attachment:
        """What a try is of which there is no pod and no handle: a person may have removed the pod by force after its driver started."""
        if not await self.was_renewed(tag):
            return Attachment.ABSENT
        if await self.silence(tag) < self.lease.silent_for:
            raise NotYet(f"waits until the driver has certainly ended: {_GONE}")
        return Attachment.RESTARTED

    async def poll(self, handle: Handle, seen: Mapping[str, Any] | None = None) -> Status:
        """Return the try's state. `seen` is its pod as a watch has it; its absence there is no proof, so it is read then."""
        silence = await self._silence_now_and_then(handle)
        is_known = _is_handles(seen, handle) and silence < QUIET_FOR
        pod = seen if is_known else await self.api.read("pods", handle["pod"])
        if pod is None or not _is_handles(pod, handle):
            if await self.silence(handle["tag"]) < self.lease.silent_for:
                return Status(phase="running", reason=_GONE)
            status = Status(phase="exited", restarted=True, reason=_GONE)
        else:
            status = await self._status(pod, handle["tag"], silence)
        if status.phase == "exited":
            await self._delete_secrets(handle["pod"])
            await self._delete_executors(handle)
            self._look_at.pop(handle["uid"], None)
        return status

    async def _silence_now_and_then(self, handle: Handle) -> float:
        """The seconds since the last renewal, if they may be so many that they matter; else 0."""
        now = anyio.current_time()
        if now < self._look_at.get(handle["uid"], -math.inf):
            return 0.0
        silence = await self.silence(handle["tag"])
        self._look_at[handle["uid"]] = now + next_look(silence, self.lease.silent_for)
        return silence

    async def _status(self, pod: Mapping[str, Any], tag: str, silence: float) -> Status:
        """What the pod says of its try. One whose container does not start in time is given up, which its next states say."""
        now = datetime.now(UTC)
        status = with_start(status_of(pod), pod, now)
        if is_out_of_sight(status, pod):
            silence = await self.silence(tag) if await self.was_renewed(tag) else math.inf
        status = without_node(status, pod, now, silence, self.lease.silent_for)
        if status.phase == "starting" and not status.reason and (warning := self.warning(pod["metadata"]["uid"])):
            status = replace(status, reason=f"waits for its container: {warning}")
        if sentence := overdue(pod, status, now):
            name, uid = pod["metadata"]["name"], pod["metadata"]["uid"]
            late = {"metadata": {"annotations": {names.LATE: sentence}, "uid": uid}}
            if await of_this_object(lambda: self.api.change("pods", name, late)):
                await of_this_object(lambda: self.api.delete("pods", name, uid=uid, grace=1))
        return status

    async def cancel(self, handle: Handle, grace: float) -> None:
        """Stop the driver, and wait until its end is known. That it was stopped is written before it can be noticed."""
        stopped = {"annotations": {names.STOPPED: datetime.now(UTC).isoformat()}, "uid": handle["uid"]}
        if await of_this_object(lambda: self.api.change("pods", handle["pod"], {"metadata": stopped})):
            seconds = max(1, round(grace))  # 0 would be a deletion by force, which waits for no container
            await of_this_object(lambda: self.api.delete("pods", handle["pod"], uid=handle["uid"], grace=seconds))
        while (await self.poll(handle)).phase != "exited":  # noqa: ASYNC110  the pod's node reports when it does
            await anyio.sleep(_CHECK_EVERY)

    async def forget(self, tag: str, handle: Handle | None) -> None:
        """Let the cluster delete all that is left of a try whose end is committed."""
        pod = await self.api.read("pods", names.pod_name(tag))
        if pod is not None and self._is_own(pod, tag) and (handle is None or _is_handles(pod, handle)):
            await remove(self.api, pod)
        await self._delete_secrets(names.pod_name(tag))
        if handle is not None:
            await self._delete_executors(handle)

    async def _create_secret(self, secret: Mapping[str, Any], tag: str) -> None:
        try:
            await self.api.create("secrets", secret)
        except ApiRefused as refusal:
            if refusal.reason != "AlreadyExists":
                raise _submit_error(refusal) from refusal
            if secret["metadata"]["name"] not in await self._own_secrets(tag):
                raise self._taken("Secret", secret["metadata"]["name"]) from refusal

    async def _create_pod(self, body: Mapping[str, Any], tag: str) -> Mapping[str, Any]:
        try:
            return await self.api.create("pods", body)
        except ApiRefused as refusal:
            if refusal.reason != "AlreadyExists":
                raise _submit_error(refusal) from refusal
        pod = await self._own_pod(tag, None)
        if pod is None or await self._withdraw(pod, tag):
            return await self.api.create("pods", body)
        return pod

    async def _own_pod(self, tag: str, handle: Handle | None) -> Mapping[str, Any] | None:
        """The try's pod; None if there is none, or only a later one than the handle's. Raises `SubmitError` for a stranger's."""
        pod = await self.api.read("pods", names.pod_name(tag))
        if pod is None or (handle is not None and not _is_handles(pod, handle)):
            return None
        if not self._is_own(pod, tag):
            raise self._taken("pod", pod["metadata"]["name"])
        return pod

    async def _withdraw(self, pod: Mapping[str, Any], tag: str) -> bool:
        """Remove a pod that can never start because its Secret is gone; return whether it was removed.

        A pod that a node has is deleted and stays the try's: its node may have read the Secret before it was deleted, and
        will report how it ended. Raises `SubmitError` for a stranger's pod.
        """
        if not self._is_own(pod, tag):
            raise self._taken("pod", pod["metadata"]["name"])
        if has_started(pod) or manifest.secret_of(pod) in await self._own_secrets(tag):
            return False
        name, uid = pod["metadata"]["name"], pod["metadata"]["uid"]
        await of_this_object(lambda: self.api.delete("pods", name, uid=uid))
        now = await self.api.read("pods", name)  # from here on no node can get it
        if now is None or now["metadata"]["uid"] != uid:
            return True
        if now["spec"].get("nodeName"):
            return False
        await remove(self.api, now)
        return True

    async def _delete_secrets(self, pod: str) -> None:
        await self.api.delete_all("secrets", names.of_try(pod, self.place.installation))

    async def _own_secrets(self, tag: str) -> Collection[str]:
        """The names of the try's Secrets. They are listed, so that our account needs no right to get any Secret by its name."""
        listed = await self.api.list_metadata("secrets", names.of_try(names.pod_name(tag), self.place.installation))
        return {metadata["name"] for metadata in listed if names.is_of_try(metadata, tag, self.place.installation)}

    async def _delete_executors(self, handle: Handle) -> None:
        """Delete what Spark left: it deletes executors itself, but not when its driver was killed or its node is gone."""
        if not handle.get("executors"):
            return
        executors = await self.api.list("pods", names.executors_of(handle["pod"], self.place.installation))
        for executor in executors["items"]:
            name, uid = executor["metadata"]["name"], executor["metadata"]["uid"]
            await of_this_object(partial(self.api.delete, "pods", name, uid=uid))

    def _is_own(self, pod: Mapping[str, Any], tag: str) -> bool:
        return names.is_of_try(pod["metadata"], tag, self.place.installation)

    def _handle(self, pod: Mapping[str, Any], tag: str) -> Handle:
        name, uid = pod["metadata"]["name"], pod["metadata"]["uid"]
        kept = float((pod["metadata"].get("annotations") or {}).get(names.DELETE_AFTER, 0))
        handle = {"pod": name, "uid": uid, "namespace": self.place.namespace, "tag": tag, "delete_after": kept}
        return {**handle, "executors": manifest.has_executors(pod)}

    def _taken(self, what: str, name: str) -> SubmitError:
        error = SubmitError(
            f"the {what} {name} in the namespace {self.place.namespace} is not this try's; "
            "find out who made it, delete it, and retry the run"
        )
        error.retryable = False
        return error


def next_look(silence: float, silent_for: float) -> float:
    """The seconds until the database is asked again after this answer: silence may not matter before."""
    return max(min(QUIET_FOR, silent_for) - silence, LOOK_EVERY)


def _is_handles(pod: Mapping[str, Any] | None, handle: Handle) -> bool:
    return pod is not None and pod["metadata"]["uid"] == handle["uid"]


def _submit_error(refusal: ApiRefused) -> Exception:
    """What a refused creation means. A quota, missing rights and an overloaded server are waited for."""
    if refusal.reason in {"BadRequest", "Invalid"} or "violates PodSecurity" in refusal.message:
        error = SubmitError(f"{refusal}; correct the job's spark.kubernetes")
        error.retryable = False
        return error
    if "exceeded quota" in refusal.message:
        return NotYet(f"waits for room in the namespace's quota: {refusal.message}")
    return refusal
