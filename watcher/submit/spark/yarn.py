"""What a try may leave on YARN, known by its tag: asked of the resource manager's web services, killed and awaited. Blocking.

In client mode the driver is a process of this machine, and YARN ends its application when it has gone, but late, or only
once there was room for the application to begin.
"""

from __future__ import annotations

import getpass
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from xml.etree import ElementTree as ET

import httpx
import structlog

log = structlog.get_logger()
MARK: Final = "yarn.json"
"""In the try's folder: whom to ask, as long as something may be left."""
_ALIVE: Final = "NEW,NEW_SAVING,SUBMITTED,ACCEPTED,RUNNING"
_APPLICATIONS: Final = "ws/v1/cluster/apps"
_PATIENCE: Final = 10.0
_LOOK_EVERY: Final = 0.2
_FORBIDDEN: Final = (401, 403)
_SPARKS: Final = "spark.hadoop."


class ApplicationsLeft(Exception):
    """Nobody knows that nothing is left; passing, so it is asked again."""


@dataclass(frozen=True, kw_only=True)
class ResourceManagers:
    """The web services of a cluster's resource managers, of which one is active, and whom its applications belong to."""

    addresses: Sequence[str]
    user: str

    def end_applications(self, tag: str) -> None:
        """Kill what is left with this tag, and wait for its end. Raises `ApplicationsLeft`.

        Managers that ask who we are (Kerberos) cannot be asked: that is logged, and nobody waits for them.
        """
        deadline = time.monotonic() + _PATIENCE
        with httpx.Client(timeout=_PATIENCE, follow_redirects=True, trust_env=False) as client:
            while applications := self._alive(client, tag):
                if time.monotonic() > deadline:
                    raise ApplicationsLeft(f"YARN has not ended {', '.join(applications)} of the try {tag} yet")
                for application in applications:
                    self._kill(client, application)
                time.sleep(_LOOK_EVERY)

    def _alive(self, client: httpx.Client, tag: str) -> list[str]:
        query = {"applicationTags": tag, "states": _ALIVE, "user.name": self.user}
        answer = self._ask(client, "GET", _APPLICATIONS, params=query)
        if answer.status_code in _FORBIDDEN:
            log.warning(
                "yarn.not_asked", tag=tag, status=answer.status_code, remedy="end what is left with this tag by hand"
            )
            return []
        applications = (answer.raise_for_status().json().get("apps") or {}).get("app", [])
        return [application["id"] for application in applications]

    def _kill(self, client: httpx.Client, application: str) -> None:
        place = f"{_APPLICATIONS}/{application}/state"
        answer = self._ask(client, "PUT", place, params={"user.name": self.user}, json={"state": "KILLED"})
        log.info("yarn.killed", application=application, status=answer.status_code)

    def _ask(self, client: httpx.Client, method: str, place: str, **what: Any) -> httpx.Response:
        """The first answer there is. Raises `ApplicationsLeft`."""
        silent = []
        for address in self.addresses:
            try:
                answer = client.request(method, f"{address}/{place}", **what)
                if answer.is_success or answer.status_code in _FORBIDDEN:
                    return answer
                silent.append(f"{address}: HTTP {answer.status_code}")
            except httpx.HTTPError as error:
                silent.append(f"{address}: {error}")
        raise ApplicationsLeft(
            f"no resource manager of YARN says whether applications are left ({'; '.join(silent)}); the try is not over before"
        )


def resource_managers(environment: Mapping[str, str], conf: Mapping[str, str]) -> ResourceManagers:
    """As Hadoop's configuration names them, in the folder of a driver's environment and in Spark's `spark.hadoop.yarn.…`."""
    folders = [environment[name] for name in ("HADOOP_CONF_DIR", "YARN_CONF_DIR") if environment.get(name)]
    site = next((read_site(file) for folder in folders if (file := Path(folder, "yarn-site.xml")).is_file()), {})
    own = {name.removeprefix(_SPARKS): value for name, value in conf.items() if name.startswith(_SPARKS)}
    user = environment.get("HADOOP_USER_NAME") or getpass.getuser()
    return ResourceManagers(addresses=tuple(_addresses({**site, **own})), user=user)


def read_site(file: Path) -> dict[str, str]:
    """Names and values of a file of Hadoop's configuration; nothing of one that is none, which Spark then says."""
    try:
        properties = ET.parse(file).getroot().iter("property")  # noqa: S314 - the administrator's own file
    except (OSError, ET.ParseError):
        return {}
    return {each.findtext("name", "").strip(): each.findtext("value", "").strip() for each in properties}


def _addresses(site: Mapping[str, str]) -> Iterator[str]:
    """Hadoop's own defaults where the site says nothing."""
    manager = "yarn.resourcemanager"
    secure = site.get("yarn.http.policy", "").upper() == "HTTPS_ONLY"
    scheme, key, port = ("https", "webapp.https.address", 8090) if secure else ("http", "webapp.address", 8088)
    several = site.get(f"{manager}.ha.enabled", "").lower() == "true"
    names = site.get(f"{manager}.ha.rm-ids", "").split(",") if several else []
    for suffix in [f".{name.strip()}" for name in names if name.strip()] or [""]:
        host = site.get(f"{manager}.hostname{suffix}", site.get(f"{manager}.hostname", "127.0.0.1"))
        address = site.get(f"{manager}.{key}{suffix}", f"{host}:{port}")
        whole = re.sub(r"\$\{([^}]+)\}", lambda name: site.get(name[1], "127.0.0.1"), address)
        yield f"{scheme}://{whole.replace('0.0.0.0', '127.0.0.1')}"  # noqa: S104 - Hadoop's word for this machine
