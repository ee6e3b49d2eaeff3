"""Which cluster is used, and with which credentials: a context of a kubeconfig, or the account of the pod we run in."""

from __future__ import annotations

import base64
import ssl
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from watcher.submit.base import SubmitError

if TYPE_CHECKING:
    from watcher.features.kubernetes.connection import ApiConnection

IN_CLUSTER: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_UNBUILT: Final = {"exec": "a program (`exec`)", "auth-provider": "an `auth-provider`", "username": "a password"}


class NoCluster(SubmitError):
    """The cluster, or what signs us in there, is not known; the sentence names the remedy."""

    retryable = False


@dataclass(frozen=True, kw_only=True)
class Cluster:
    """A cluster's address and our credentials there. A token in a file is read for each request: it is rotated."""

    server: str
    authority: bytes | None = None
    """The certificates (PEM) that may have signed the server's; None are the system's."""
    token: str | None = None
    token_file: Path | None = None
    certificate: bytes | None = None
    """Our own certificate and its key (PEM)."""
    key: bytes | None = None

    def connection(self) -> ApiConnection:
        """A connection to its API. Blocking, for a moment."""
        from watcher.features.kubernetes.connection import ApiConnection  # noqa: PLC0415  most daemons have no pods, and no aiohttp

        return ApiConnection(self.server, self._tls(), self._sign_in)

    def _sign_in(self) -> Mapping[str, str]:
        token = self.token if self.token_file is None else self.token_file.read_text(encoding="ascii").strip()
        return {} if token is None else {"Authorization": f"Bearer {token}"}

    def _tls(self) -> ssl.SSLContext:
        context = ssl.create_default_context(cadata=None if self.authority is None else self.authority.decode())
        if self.certificate is not None and self.key is not None:
            with tempfile.NamedTemporaryFile() as both:  # 0600; OpenSSL loads keys from files only
                both.write(self.certificate + b"\n" + self.key)
                both.flush()
                context.load_cert_chain(both.name)
        return context


def own_cluster(environment: Mapping[str, str], folder: Path = IN_CLUSTER) -> Cluster:
    """The cluster that this process runs in. Raises `NoCluster`."""
    host, port = environment.get("KUBERNETES_SERVICE_HOST"), environment.get("KUBERNETES_SERVICE_PORT")
    if not host or not port or not (folder / "token").is_file():
        raise NoCluster(
            "settings.kubernetes has `in_cluster`, and this process is in no pod with a service account: "
            "run it in one, or give a `context`"
        )
    address = f"[{host}]" if ":" in host else host
    return Cluster(
        server=f"https://{address}:{port}", authority=(folder / "ca.crt").read_bytes(), token_file=folder / "token"
    )


def cluster_of_context(context: str | None, environment: Mapping[str, str]) -> Cluster:
    """The cluster of a context, or of the current one, in the files that KUBECONFIG names. Blocking. Raises `NoCluster`."""
    home = Path(environment.get("HOME", "/"))
    named = environment.get("KUBECONFIG") or str(home / ".kube" / "config")
    documents = [(path.parent, _document(path)) for path in map(Path, named.split(":")) if path.is_file()]
    name = context or next((each["current-context"] for _, each in documents if each.get("current-context")), None)
    if name is None:
        raise NoCluster(f"no context is current in {named}: name one in settings.kubernetes.context")
    _, chosen = _entry(documents, "context", name, named)
    cluster_folder, cluster = _entry(documents, "cluster", str(chosen.get("cluster")), named)
    user_folder, user = _entry(documents, "user", str(chosen.get("user")), named)
    if cluster.get("insecure-skip-tls-verify"):
        raise NoCluster(f"the context {name} does not check the server's certificate: give it `certificate-authority`")
    if unbuilt := next((words for key, words in _UNBUILT.items() if user.get(key)), None):
        raise NoCluster(
            f"the context {name} signs in by {unbuilt}, which is not built: "
            "use a token, a client certificate, or `in_cluster`"
        )
    token_file = user.get("tokenFile")
    return Cluster(
        server=str(cluster.get("server")),
        authority=_content(cluster, "certificate-authority", cluster_folder),
        token=user.get("token") if token_file is None else None,
        token_file=None if token_file is None else user_folder / token_file,
        certificate=_content(user, "client-certificate", user_folder),
        key=_content(user, "client-key", user_folder),
    )


def _document(path: Path) -> Mapping[str, Any]:
    try:
        document = YAML(typ="safe", pure=True).load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeError, YAMLError) as error:
        raise NoCluster(f"the kubeconfig {path} cannot be read ({error}): repair it") from error
    return document if isinstance(document, dict) else {}


def _entry(
    documents: Sequence[tuple[Path, Mapping[str, Any]]], kind: str, name: str, files: str
) -> tuple[Path, Mapping[str, Any]]:
    """The folder and content of a named entry; the first file that has it wins, as for kubectl."""
    for folder, document in documents:
        for each in document.get(f"{kind}s") or ():
            if each.get("name") == name:
                return folder, each.get(kind) or {}
    raise NoCluster(f"there is no {kind} {name} in {files}: correct settings.kubernetes.context, or the kubeconfig")


def _content(entry: Mapping[str, Any], key: str, folder: Path) -> bytes | None:
    """The bytes that stand in the kubeconfig itself, or in a file that it names relative to itself."""
    if data := entry.get(f"{key}-data"):
        return base64.b64decode(data)
    if not entry.get(key):
        return None
    path = folder / str(entry[key])
    try:
        return path.read_bytes()
    except OSError as error:
        raise NoCluster(f"{path}, the `{key}` of the kubeconfig, cannot be read ({error.strerror})") from error
