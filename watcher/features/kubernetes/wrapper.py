"""The first process of a driver's container: `python -I wrapper.py`, with the Secret's files beside it.

Standard library only, beside `shim.py`, which travels with it. It starts the driver once, and only after the API has granted
the try's lease, which it does to one container: one that a node starts late, when the try is over, starts no driver, nor does
a second one of the same pod. It keeps the lease, and ends everything when the lease ends: then the daemon may start the try
elsewhere, although no node answers.

    order.json     {"argv", "environment", "renew_every", "lease"}: what to start, and seconds. `{POD_IP}` in a property of the
                   driver is the pod's address
    context.json   the job's private context. It is copied to a folder in memory, 0600: a Secret's files belong to root
    started.json   in the folder on the node's disk, made with O_EXCL: a container that is started twice exits with 76. The
                   folder may be gone, when a node has ended such a container and could not report it: then the API says so

It exits as the driver does (128 + n after signal n), or with 75 when it ended the driver itself. What the daemon has to
know beside the exit code is the container's termination message: a line that says why it ended the driver, which is empty if
it did not, and a line of JSON with what the driver's processes took (`cpu_seconds`, `peak_mb`).
"""

from __future__ import annotations

import http.client
import json
import os
import signal
import sys
import threading
import time
import urllib.error
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

HERE = Path(__file__).parent
if TYPE_CHECKING or __package__:
    from watcher.submit.local import shim
else:
    sys.path.insert(0, str(HERE))
    import shim

STARTED_TWICE = 76
FENCED = 75
MESSAGE = "asset-watcher: "
_TIMEOUT = 10.0
_LOOK_EVERY = 1.0
_ASK_EVERY = 1.0
_GRANT_CHECK = 0.01
_REFUSALS = {401, 404, 409}
_HELD = "held"
_NO_ANSWER = (OSError, http.client.HTTPException, ValueError, KeyError, TypeError)
"""What it means that nobody answered, or something that is not the API."""


def boot_time() -> float:
    """Seconds since the machine was started, including those in which it was suspended."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


@dataclass
class Lease:
    """The right to run, renewed by the API. It is counted from when the last answered request was sent."""

    url: str
    token: str
    holder: str = field(default_factory=lambda: os.urandom(16).hex())
    renewed_at: float = field(default_factory=boot_time)
    refusal: str = ""
    is_held: bool = False
    """Whether another container of the try has it."""
    granted: bool = False
    """Whether the API has answered, so that the driver may start."""

    def keep(self, every: float) -> None:
        """Renew for ever, or until the API refuses. For a thread of its own: a request may hang."""
        while not self.refusal:
            self.renew()
            time.sleep(every if self.granted else min(every, _ASK_EVERY))

    def renew(self) -> None:
        sent_at = boot_time()
        body = json.dumps({"holder": self.holder}).encode()
        request = urllib.request.Request(self.url, data=body, method="POST")  # noqa: S310  the daemon's own address
        request.add_header("Authorization", f"Bearer {self.token}")
        request.add_header("Content-Type", "application/json")
        try:
            with urllib.request.urlopen(request, timeout=_TIMEOUT) as response:  # noqa: S310
                self.token = json.load(response)["token"]
        except urllib.error.HTTPError as error:
            if error.code in _REFUSALS:
                self.is_held = reason_of(error) == _HELD
                self.refusal = f"the daemon answered {error.code}: this try is over or superseded"
            return
        except _NO_ANSWER:
            return  # the lease goes on to its end
        self.renewed_at, self.granted = sent_at, True

    def end(self, seconds: float) -> str:
        """Why the driver may not run any longer; '' while it may."""
        if self.refusal:
            return self.refusal
        silent = boot_time() - self.renewed_at
        return f"the daemon's API did not answer for {silent:.0f} s" if silent > seconds else ""


def main(work: Path, private: Path, message: Path) -> int:
    shim.become_subreaper()
    shim.listen_for_signals()  # at once: the kernel drops a SIGTERM to a container's first process that does not expect it
    try:
        shim.write_marker(work / "started.json", {"pid": os.getpid(), "boot_id": shim.boot_id()})
    except FileExistsError:
        return started_twice(message)
    order = json.loads((HERE / "order.json").read_bytes())
    context = json.loads((HERE / "context.json").read_bytes())
    copied = private / "context.json"
    with os.fdopen(os.open(copied, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
        json.dump(context, file)
    os.environ.update(order["environment"], ASSET_JOB_CONTEXT=str(copied))
    lease = Lease(f"{context['api'].rstrip('/')}/execution/tries/renewal", context["token"])
    threading.Thread(target=lease.keep, args=(order["renew_every"],), daemon=True).start()
    status: int | None = None
    if not (ended_because := await_grant(lease, order["lease"])):
        try:
            first = shim.spawn(arguments(order["argv"], os.environ.get("POD_IP", "127.0.0.1")))
        except OSError as error:
            message.write_text(f"{MESSAGE}{order['argv'][0]} could not be started: {error.strerror}", encoding="utf-8")
            return 127
        status, ended_because = follow(first, lease, order["lease"])
    shim.kill_descendants()
    copied.unlink()
    if lease.is_held:
        return started_twice(message)
    message.write_text(f"{MESSAGE}{ended_because}\n{json.dumps(shim.cost(0.0))}", encoding="utf-8")
    return FENCED if ended_because else shim.outcome(status)[0]


def started_twice(message: Path) -> int:
    message.write_text(f"{MESSAGE}started twice", encoding="utf-8")
    return STARTED_TWICE


def reason_of(error: urllib.error.HTTPError) -> str:
    """Return the word by which the API says why it refused; '' if it was not the API that answered."""
    try:
        return str(json.load(error)["detail"]["reason"])
    except _NO_ANSWER:
        return ""


def end(code: int) -> NoReturn:
    """Exit at once: an interpreter that is torn down around a thread in a request can crash, with another code."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def arguments(argv: list[str], pod_ip: str) -> list[str]:
    """Return the arguments with the pod's address in Spark's own properties. The job's arguments stay as they are."""
    host = f"[{pod_ip}]" if ":" in pod_ip else pod_ip
    return [word.replace("{POD_IP}", host) if word.startswith("spark.driver.") else word for word in argv]


def await_grant(lease: Lease, seconds: float) -> str:
    """Wait for the API's first answer. Return '' if the driver may start, else why it may not."""
    while not lease.granted:
        if because := lease.end(seconds):
            return because
        time.sleep(_GRANT_CHECK)
    return lease.end(seconds)


def follow(first: int, lease: Lease, seconds: float) -> tuple[int | None, str]:
    """Wait for the end of the driver's first process, or of the lease. SIGTERM is passed on to all processes."""
    while True:
        statuses, _ = shim.reap()
        if first in statuses:
            return statuses[first], ""
        if because := lease.end(seconds):
            return None, because
        received = signal.sigtimedwait({signal.SIGTERM, signal.SIGCHLD}, _LOOK_EVERY)
        if received is not None and received.si_signo == signal.SIGTERM:
            shim.send(signal.SIGTERM, shim.descendants())


if __name__ == "__main__":
    root = HERE.parent
    end(main(root / "work", root / "private", Path("/dev/termination-log")))
