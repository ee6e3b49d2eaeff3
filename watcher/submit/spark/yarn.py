"""Applications that a try left on YARN, known by its tag: the resource manager's web services list and kill them. Blocking.

In client mode the driver is a process of this machine. YARN ends its application when the driver has gone, but late, or
only after there was room for the application to begin.
"""

from __future__ import annotations

import getpass
import json
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self
from xml.etree import ElementTree as ET

import httpx
import structlog

log = structlog.get_logger()
MARK: Final = "yarn.json"
"""The file in the try's folder that names the resource managers, as long as something may be left."""
_ALIVE: Final = "NEW,NEW_SAVING,SUBMITTED,ACCEPTED,RUNNING"
_APPLICATIONS: Final = "ws/v1/cluster/apps"
_PATIENCE: Final = 10.0
_LOOK_EVERY: Final = 0.2
_FORBIDDEN: Final = (401, 403)
_SPARK_PREFIX: Final = "spark.hadoop."


class ApplicationsLeft(Exception):
    """It is not certain that nothing is left. Temporary: the managers are asked again."""


@dataclass(frozen=True, kw_only=True)
class ResourceManagers:
    """The web services of a cluster's resource managers, one of which is active, and the owner of the applications."""

    addresses: Sequence[str]
    user: str

    @classmethod
    def from_json(cls, text: str) -> Self:
        content = json.loads(text)
        return cls(addresses=content["addresses"], user=content["user"])

    def to_json(self) -> str:
        return json.dumps({"addresses": list(self.addresses), "user": self.user})

    def end_applications(self, tag: str) -> None:
        """Kill applications with this tag, and wait for their end. Raises `ApplicationsLeft`.

        Managers that require authentication (Kerberos) cannot be asked. That is logged, and nothing waits for them.
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
        response = self._ask(client, "GET", _APPLICATIONS, query)
        if response.status_code in _FORBIDDEN:
            log.warning(
                "yarn.not_asked", tag=tag, status=response.status_code, remedy="end what is left with this tag by hand"
            )
            return []
        applications = (response.raise_for_status().json().get("apps") or {}).get("app", [])
        return [application["id"] for application in applications]

    def _kill(self, client: httpx.Client, application: str) -> None:
        path = f"{_APPLICATIONS}/{application}/state"
        response = self._ask(client, "PUT", path, {"user.name": self.user}, {"state": "KILLED"})
        log.info("yarn.killed", application=application, status=response.status_code)

    def _ask(
        self,
        client: httpx.Client,
        method: str,
        path: str,
        parameters: Mapping[str, str],
        content: Mapping[str, str] | None = None,
    ) -> httpx.Response:
        """Return the first usable response. Raises `ApplicationsLeft` if no manager gives one."""
        failures = []
        for address in self.addresses:
            try:
                response = client.request(method, f"{address}/{path}", params=parameters, json=content)
                if response.is_success or response.status_code in _FORBIDDEN:
                    return response
                failures.append(f"{address}: HTTP {response.status_code}")
            except httpx.HTTPError as error:
                failures.append(f"{address}: {error}")
        raise ApplicationsLeft(
            f"no resource manager of YARN says whether applications are left ({'; '.join(failures)}); the try is not over until one does"
        )


def end_applications_left(folder: Path, tag: str) -> None:
    """End what a try with this folder left, if a `MARK` in it names resource managers. Raises `ApplicationsLeft`."""
    mark = folder / MARK
    if mark.exists():
        ResourceManagers.from_json(mark.read_text(encoding="utf-8")).end_applications(tag)
        mark.unlink(missing_ok=True)


def resource_managers(environment: Mapping[str, str], conf: Mapping[str, str]) -> ResourceManagers:
    """The managers that Hadoop's configuration names.

    It is in the folder that the driver's environment names, and in Spark's properties `spark.hadoop.yarn.…`.
    """
    folders = [environment[name] for name in ("HADOOP_CONF_DIR", "YARN_CONF_DIR") if environment.get(name)]
    site = next((read_site(file) for folder in folders if (file := Path(folder, "yarn-site.xml")).is_file()), {})
    own = {name.removeprefix(_SPARK_PREFIX): value for name, value in conf.items() if name.startswith(_SPARK_PREFIX)}
    user = environment.get("HADOOP_USER_NAME") or getpass.getuser()
    return ResourceManagers(addresses=tuple(_addresses({**site, **own})), user=user)


def read_site(file: Path) -> dict[str, str]:
    """Names and values in a file of Hadoop's configuration; none if the file is invalid, which Spark reports itself."""
    try:
        properties = ET.parse(file).getroot().iter("property")  # noqa: S314 - the administrator's own file
    except (OSError, ET.ParseError):
        return {}
    return {entry.findtext("name", "").strip(): entry.findtext("value", "").strip() for entry in properties}


def _addresses(site: Mapping[str, str]) -> Iterator[str]:
    """The addresses of the managers' web services; Hadoop's own defaults where the site says nothing."""
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
