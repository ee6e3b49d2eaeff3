"""A daemon reduced to one try as a pod, to be killed: `python -m tests.service.kubernetes.pod_daemon WORD ORDER`.

ORDER is JSON of a `PodOrder`. `submit` submits the try; `settle` does what the next daemon of its home does. Both say "ready"
before their first request.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from uuid import uuid4

import anyio

from config.models.kubernetes import DriverPod
from tests.kubernetes_images import IMAGE
from tests.unit.submit.plain import make_submission
from watcher.submit.base import Attachment, Handle, Submission
from watcher.submit.kubernetes import wrapper
from watcher.submit.kubernetes.api import PodApi
from watcher.submit.kubernetes.cluster import Cluster
from watcher.submit.kubernetes.manifest import DriverCommand, Place
from watcher.submit.kubernetes.pod_tries import PodTries
from watcher.submit.local import shim

_MODULES = {"wrapper.py": wrapper, "shim.py": shim}
_WITNESSED = """
import sys, urllib.request
urllib.request.urlopen(urllib.request.Request(sys.argv[1], data=b"started", method="POST"))
"""


@dataclass(frozen=True, kw_only=True)
class PodOrder:
    server: str
    authority: str
    token: str
    namespace: str
    installation: str
    task: str
    api: str
    """The daemon's API as pods reach it. A driver posts to `/witness/TASK` there when it starts, and ends."""

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @property
    def submission(self) -> Submission:
        return make_submission(self.task, Path("/x.py"), context={"token": uuid4().hex, "api": self.api})

    def cluster(self) -> Cluster:
        return Cluster(server=self.server, authority=self.authority.encode(), token=self.token)


def tries_of(order: PodOrder, pods: PodApi) -> PodTries:
    async def silence(_tag: str) -> float:
        return 1000.0

    async def is_ours(_tag: str) -> bool:
        return True

    place = Place(namespace=order.namespace, installation=order.installation)
    return PodTries(api=pods, place=place, silence=silence, is_ours=is_ours)


async def submit(order: PodOrder, tries: PodTries) -> Handle:
    template = {"spec": {"containers": [{"name": "driver", "imagePullPolicy": "IfNotPresent"}]}}
    job = DriverPod.model_validate({"image": IMAGE, "driver": {"cpu": "50m", "memory": "896Mi"}, "template": template})
    argv = ["/usr/bin/python3", "-c", _WITNESSED, f"{order.api}/witness/{order.task}"]
    files = {name: Path(str(module.__file__)).read_bytes() for name, module in _MODULES.items()}
    return await tries.submit(order.submission, job, DriverCommand(argv=argv, environment={}), files)


async def settle(order: PodOrder, tries: PodTries) -> Handle:
    attached = await tries.attach(order.submission.tag, None)
    if attached is Attachment.ABSENT:
        return await submit(order, tries)
    assert not isinstance(attached, Attachment)
    return attached


async def main(word: str, text: str) -> None:
    order = PodOrder(**json.loads(text))
    async with order.cluster().client() as client:
        tries = tries_of(order, PodApi(client, order.namespace))
        print("ready", flush=True)  # noqa: T201
        await {"submit": submit, "settle": settle}[word](order, tries)


if __name__ == "__main__":
    anyio.run(main, *sys.argv[1:])
