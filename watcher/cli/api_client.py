"""The client through which commands use the REST API."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from watcher.cli.failures import CommandFailed, ExitCode, Unavailable

if TYPE_CHECKING:
    import httpx

_CODES: Final[Mapping[int, ExitCode]] = {
    404: ExitCode.NOT_FOUND,
    409: ExitCode.CONFLICT,
    422: ExitCode.USAGE,
    400: ExitCode.USAGE,
}
_PAGE: Final = 100
_UNAUTHORIZED, _UNAVAILABLE = 401, 503


class ApiClient:
    """A client of the REST API. Every refusal becomes a `CommandFailed` with the API's own sentence."""

    def __init__(
        self,
        client: httpx.AsyncClient,
        logs_here: Path | None = None,
        owner: Callable[[], str] | None = None,
        home: Path | None = None,
    ) -> None:
        self.client = client
        self.logs_here = logs_here
        """The folder of log files when no daemon serves them, else None."""
        self.home = home
        """The home in which no daemon runs, when this process answers instead, else None."""
        self._owner = owner

    @property
    def makes_links(self) -> bool:
        """False: nobody has to sign in, or this account may not make links."""
        return self._owner is not None

    async def link(self, role: str, following: str | None) -> str:
        """Make a link with which a browser signs in once, in a role, to go on to the page at an address below the root."""
        assert self._owner is not None  # noqa: S101  the caller has looked
        body = {"role": role, "next": following}
        headers = {"Authorization": f"Bearer {self._owner()}"}
        return str((await self.send("POST", "/api/v2/sign-in-links", body=body, headers=headers)).json()["url"])

    async def get(self, path: str, **query: Any) -> Any:
        return (await self.send("GET", path, query=query)).json()

    async def all(self, path: str, member: str, **query: Any) -> list[dict[str, Any]]:
        members: list[dict[str, Any]] = []
        while True:
            page = await self.get(path, limit=_PAGE, offset=len(members), **query)
            members += page[member]
            if len(members) >= page["total_entries"] or not page[member]:
                return members

    async def send(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, Any] | None = None,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
        accepted: int | None = None,
    ) -> httpx.Response:
        """Send a request and return the answer. Raises `CommandFailed` for a refusal; the status `accepted` is none."""
        import httpx  # noqa: PLC0415  see watcher.cli

        given = {name: value for name, value in (query or {}).items() if value is not None}
        try:
            answer = await self.client.request(method, path, params=given, json=body, headers=headers)
        except httpx.TransportError as error:
            raise CommandFailed(
                f"nobody answers at {self.client.base_url}: {error}; start `watcher run`, or give --url"
            ) from error
        if answer.status_code != accepted:
            check(answer)
        return answer


@asynccontextmanager
async def remote(
    url: str, token: Callable[[], str] | None, owner: Callable[[], str] | None = None
) -> AsyncIterator[ApiClient]:
    """Open a client of the daemon at `url`. `token` is called for each request; `owner` for those of the home's owner alone."""
    import httpx  # noqa: PLC0415  see watcher.cli

    def signed(request: httpx.Request) -> httpx.Request:
        if token is not None and "Authorization" not in request.headers:
            request.headers["Authorization"] = f"Bearer {token()}"
        return request

    is_secure = url.startswith("https:")  # else the authorities' certificates, which take long to read, are of no use
    async with httpx.AsyncClient(base_url=url, auth=signed, timeout=60, verify=is_secure) as client:
        yield ApiClient(client, owner=owner)


def check(answer: httpx.Response) -> None:
    """Raise the `CommandFailed` that an answer stands for, if it is a refusal."""
    if answer.is_success:
        return
    if answer.status_code == _UNAUTHORIZED:
        raise CommandFailed(
            "the daemon asks who you are; give --token or WATCHER_TOKEN (`watcher token create` makes one)"
        )
    if answer.status_code == _UNAVAILABLE:
        raise Unavailable(_sentence(answer))
    raise CommandFailed(_sentence(answer), _CODES.get(answer.status_code, ExitCode.FAILED))


def _sentence(answer: httpx.Response) -> str:
    try:
        detail = answer.json()["detail"]
    except (ValueError, KeyError, TypeError):
        return f"{answer.request.url} answers {answer.status_code}; is it an Asset Watcher?"
    if isinstance(detail, list):
        return "; ".join(f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}" for fault in detail)
    return str(detail)


def runs_path(job: str) -> str:
    """Return the path of a job's runs in the API. The job `~` stands for all jobs."""
    return f"/api/v2/dags/{part_of_path(job)}/dagRuns"


def path_of(job: str, run_id: str) -> str:
    """Return the path of one run in the API."""
    return f"{runs_path(job)}/{part_of_path(run_id)}"


def part_of_path(name: str) -> str:
    """Return a name as one part of a path. `~` stays: it stands for all."""
    return quote(name, safe="~")
