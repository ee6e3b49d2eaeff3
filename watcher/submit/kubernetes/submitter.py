"""PySpark in pods: the driver runs in client mode in a pod of its own, and its tasks there or in executors' pods."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import ClassVar, Final, cast

import anyio
from anyio.to_thread import run_sync
from pydantic import BaseModel

from config.features.kubernetes.settings import DriverPod, KubernetesPart, KubernetesSettings
from config.models import SparkParameters
from store.keys import TryKey
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
    TryRecords,
    Workspace,
)
from watcher.submit.failure_reasons import explain_log
from watcher.submit.kubernetes import wrapper
from watcher.submit.kubernetes.access import access_findings, driver_findings
from watcher.submit.kubernetes.api import PodApi
from watcher.submit.kubernetes.cluster import Cluster, NoCluster, cluster_of_context, own_cluster
from watcher.submit.kubernetes.driver_files import SDK, SHIM, CarriedFiles, driver_command, in_pod
from watcher.submit.kubernetes.driver_logs import DriverLogs
from watcher.submit.kubernetes.installation_watch import SWEEP_EVERY, InstallationWatch
from watcher.submit.kubernetes.manifest import WRAPPER, LeaseTimes, Place
from watcher.submit.kubernetes.options import KubernetesOptions, refusals
from watcher.submit.kubernetes.pod_tries import PodTries
from watcher.submit.local import shim
from watcher.submit.local.exit_reason import end_of
from watcher.submit.spark_submit import with_properties

_NO_ADDRESS: Final = "drivers in pods need an address of the API that they can reach: set settings.kubernetes.api_url, or settings.api.base_url"


class ClusterUnknown(Exception):
    """The cluster cannot be asked now. It says nothing of a try, whose driver may run."""


class KubernetesPods(Submitter):
    """A try is a pod and its Secret. What is known of it is in the cluster; a handle names its pod."""

    Options = KubernetesOptions
    ends_with_home = False
    poll_every = timedelta(seconds=1)
    lease: ClassVar[LeaseTimes] = LeaseTimes()
    sweep_every: ClassVar[float] = SWEEP_EVERY

    def __init__(self, workspace: Workspace) -> None:
        super().__init__(workspace)
        self._opened: PodTries | None = None
        self._opening = anyio.Lock()
        self._watch: InstallationWatch | None = None
        self._logs = DriverLogs(workspace.logs)
        self._settings = workspace.settings.part(KubernetesPart).kubernetes

    @classmethod
    def refusals(cls, spark: SparkParameters, options: BaseModel) -> Iterable[tuple[str, str]]:
        return refusals(spark, cast("KubernetesOptions", options).kubernetes)

    async def run(self) -> None:
        """Watch the installation's pods, so that a poll needs no request, and their events; remove what tries left behind."""
        if self._settings is None:
            return
        tries = await self._tries()
        records, installation = self.workspace.tries, tries.place.installation
        self._watch = InstallationWatch(tries.api, installation, records, self.sweep_every)
        try:
            await self._watch.run()
        finally:
            self._watch = None
            await self.close()

    async def close(self) -> None:
        """Close the connections to the cluster. The next request opens new ones."""
        opened, self._opened = self._opened, None
        if opened is not None:
            await opened.api.connection.close()

    async def submit(self, submission: Submission) -> Handle:
        tries, pod, files = await self._tries(), _pod_of(submission.application), CarriedFiles()
        application = in_pod(with_properties(submission.application, "spark"), pod, files)
        submission = replace(submission, application=application)
        command, of_spark = driver_command(submission, pod, tries.place, self.lease)
        contents = {**await run_sync(_contents, files.by_name, self.workspace), **of_spark}
        handle = await tries.submit(submission, pod, command, contents)
        return self._handle(submission.key, handle)

    async def attach(self, key: TryKey, tag: str, handle: Handle | None) -> Handle | Attachment:
        attached = await (await self._tries()).attach(tag, handle)
        return attached if isinstance(attached, Attachment) else self._handle(key, attached)

    async def poll(self, handle: Handle) -> Status:
        """Return the try's state, with its log copied up to its end once it is over."""
        seen = None if self._watch is None else self._watch.pod(handle["pod"])
        status = await (await self._tries()).poll(handle, seen)
        if status.phase == "running":
            await self._logs.copy_now_and_then((await self._tries()).api, handle)
        elif status.phase == "exited":
            await self._logs.copy_to_the_end((await self._tries()).api, handle)
        if status.phase == "exited" and status.exit_code and not status.reason and not status.stopped:
            return replace(status, reason=await run_sync(_explained, status.exit_code, self._logs.copy_of(handle).file))
        return status

    async def cancel(self, handle: Handle, grace: float) -> None:
        await (await self._tries()).cancel(handle, grace)

    def logs(self, handle: Handle, offset: int) -> AsyncIterator[bytes]:
        return self._logs.read(handle, offset)

    def kept_for(self, handle: Handle | None) -> timedelta:
        return timedelta(seconds=0 if handle is None else handle["delete_after"])

    async def forget(self, key: TryKey, tag: str, handle: Handle | None) -> None:  # noqa: ARG002
        await (await self._tries()).forget(tag, handle)

    def needs(self, application: SparkApplication) -> Needs:  # noqa: ARG002  it takes nothing of this machine
        return Needs()

    def api_url(self, addresses: Addresses) -> str:
        settings = self._settings
        url = addresses.public if settings is None or settings.api_url is None else settings.api_url
        if url is None:
            raise NoCluster(_NO_ADDRESS)
        return url

    async def check(self, application: SparkApplication) -> Sequence[Finding]:
        """Check the files that a pod would get, and that the cluster allows what a try needs."""
        try:
            files, pod = CarriedFiles(), _pod_of(application)
            in_pod(with_properties(application, "spark"), pod, files)
            await run_sync(_contents, files.by_name, self.workspace)
            api = (await self._tries()).api
            of_drivers = () if pod.executor is None else await driver_findings(api, pod.service_account)
            return [*await access_findings(api), *of_drivers]
        except (SubmitError, ClusterUnknown) as error:
            problem, _, remedy = str(error).partition(": ")
            return [Finding(check="kubernetes", level="error", message=problem, remedy=remedy)]

    async def _tries(self) -> PodTries:
        if self._opened is None:
            async with self._opening:
                if self._opened is None:
                    self._opened = await self._open()
        return self._opened

    async def _open(self) -> PodTries:
        settings = self._settings
        if settings is None:
            raise ClusterUnknown("there is no settings.kubernetes, which names cluster and namespace: add it")
        try:
            connection = await run_sync(lambda: cluster_of(settings, self.workspace.environment).connection())
        except NoCluster as error:
            raise ClusterUnknown(str(error)) from error
        records = self.workspace.tries or _Unknown()
        return PodTries(
            api=PodApi(connection, settings.namespace),
            place=Place(namespace=settings.namespace, installation=self.workspace.installation),
            silence=records.silence,
            was_renewed=records.was_renewed,
            is_ours=records.may_start,
            warning=lambda uid: "" if self._watch is None else self._watch.warning(uid),
            lease=self.lease,
        )

    def _handle(self, key: TryKey, handle: Handle) -> Handle:
        return {**handle, "log": key.bindings}


class _Unknown(TryRecords):
    """The records of a process that has no database open, and starts nothing."""

    async def silence(self, tag: str) -> float:  # noqa: ARG002
        return 0.0

    async def was_renewed(self, tag: str) -> bool:  # noqa: ARG002
        return False

    async def may_start(self, tag: str) -> bool:  # noqa: ARG002
        return False

    async def kept(self) -> Collection[str]:
        return ()


def cluster_of(settings: KubernetesSettings, environment: Mapping[str, str]) -> Cluster:
    """The cluster that the settings name. Blocking. Raises `NoCluster`."""
    return own_cluster(environment) if settings.in_cluster else cluster_of_context(settings.context, environment)


def _pod_of(application: SparkApplication) -> DriverPod:
    return cast("KubernetesOptions", application.options).kubernetes


def _contents(files: Mapping[str, Path], workspace: Workspace) -> Mapping[str, bytes]:
    """Read the files for a pod, ours among them. Blocking. Raises `SubmitError` for the first one that cannot be read."""
    ours = {WRAPPER: Path(wrapper.__file__), SHIM: Path(shim.__file__), SDK: workspace.sdk_archive()}
    try:
        return {name: path.read_bytes() for name, path in {**files, **ours}.items()}
    except OSError as error:
        sentence = f"{error.filename} cannot be read ({error.strerror}): create it, or correct its path"
        raise SubmitError(sentence) from error


def _explained(exit_code: int, log: Path) -> str:
    ending, reason = f"the driver ended with exit code {exit_code}", explain_log(end_of(log).text)
    if reason is None:
        return f"{ending} and logged nothing"
    return f"{ending}; the last line of its log: {reason.sentence}" if reason.guessed else reason.sentence
