"""The rules of Kubernetes' API that a submitter relies on, kept by the API server itself and by the stand-in."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest

from config.features.kubernetes.settings import DriverPod
from tests.kubernetes_api import running_api
from tests.service.kubernetes.conftest import bind, namespace_of
from tests.unit.submit.plain import make_submission
from watcher.submit.kubernetes import manifest
from watcher.submit.kubernetes.manifest import DriverCommand, Place

INSTALLATION = "0a0a0a0a-0000-4000-8000-000000000000"
COMMAND = DriverCommand(argv=["spark-submit"], environment={})


def pod(api: httpx.Client, **more: Any) -> dict[str, Any]:
    place = Place(namespace=namespace_of(api), installation=INSTALLATION)
    job = DriverPod.model_validate({"image": "watcher:1", "executor": {}, **more})
    return manifest.pod(make_submission("1", Path("/load.py")), place, job)


def secret(api: httpx.Client) -> dict[str, Any]:
    place = Place(namespace=namespace_of(api), installation=INSTALLATION)
    return manifest.secret(make_submission("1", Path("/load.py")), place, COMMAND, {"wrapper.py": b"pass"})


def created(api: httpx.Client, kind: str, body: dict[str, Any]) -> dict[str, Any]:
    answer = api.post(f"/{kind}", json=body)
    assert answer.status_code == 201, answer.text
    made: dict[str, Any] = answer.json()
    return made


def patched(api: httpx.Client, path: str, change: dict[str, Any]) -> httpx.Response:
    return api.patch(path, json=change, headers={"Content-Type": "application/merge-patch+json"})


def reason(answer: httpx.Response) -> tuple[int, str]:
    return answer.status_code, answer.json()["reason"]


def test_what_we_create_is_admitted_where_restricted_pods_are_enforced(api: httpx.Client) -> None:
    created(api, "secrets", secret(api))
    made = created(api, "pods", pod(api, template={"spec": {"nodeSelector": {"disk": "fast"}}}))
    assert made["status"]["phase"] == "Pending"


@pytest.mark.kubernetes
def test_a_pod_without_our_security_context_would_not_be(tmp_path: Path) -> None:
    """Shows that the namespaces of these tests do enforce something."""
    with running_api(tmp_path) as real, real.client() as client:
        bare = {"metadata": {"name": "x"}, "spec": {"containers": [{"name": "x", "image": "x"}]}}
        answer = client.post(f"/api/v1/namespaces/{real.new_namespace()}/pods", json=bare)
    assert answer.status_code == 403
    assert "restricted" in answer.json()["message"]


def test_one_name_is_one_pod(api: httpx.Client) -> None:
    first = created(api, "pods", pod(api))
    assert reason(api.post("/pods", json=pod(api))) == (409, "AlreadyExists")
    assert api.get(f"/pods/{first['metadata']['name']}").json()["metadata"]["uid"] == first["metadata"]["uid"]


def test_a_deleted_pod_stays_readable_until_our_finalizer_is_taken_off(api: httpx.Client) -> None:
    name = created(api, "pods", pod(api))["metadata"]["name"]
    assert api.request("DELETE", f"/pods/{name}", json={"gracePeriodSeconds": 0}).status_code == 200
    kept = api.get(f"/pods/{name}").json()
    assert kept["metadata"]["deletionTimestamp"]
    assert reason(api.post("/pods", json=pod(api))) == (409, "AlreadyExists")
    assert patched(api, f"/pods/{name}", {"metadata": {"finalizers": None}}).status_code == 200
    assert reason(api.get(f"/pods/{name}")) == (404, "NotFound")


def test_a_later_deletion_does_not_give_a_pod_more_time(api: httpx.Client) -> None:
    """So a pod that was deleted by force goes with its finalizer, although its try is cancelled afterwards."""
    name = created(api, "pods", pod(api))["metadata"]["name"]
    bind(api, name)
    for grace, left in ((20, 20), (30, 20), (5, 5), (0, 0), (10, 0)):
        assert api.request("DELETE", f"/pods/{name}", json={"gracePeriodSeconds": grace}).status_code == 200
        assert api.get(f"/pods/{name}").json()["metadata"]["deletionGracePeriodSeconds"] == left
    patched(api, f"/pods/{name}", {"metadata": {"finalizers": None}})
    assert reason(api.get(f"/pods/{name}")) == (404, "NotFound")


def test_a_pod_of_the_same_name_is_not_deleted_in_place_of_another(api: httpx.Client) -> None:
    name = created(api, "pods", pod(api))["metadata"]["name"]
    other = {"preconditions": {"uid": "00000000-0000-4000-8000-000000000000"}}
    assert reason(api.request("DELETE", f"/pods/{name}", json=other)) == (409, "Conflict")
    assert patched(
        api, f"/pods/{name}", {"metadata": {"uid": other["preconditions"]["uid"], "labels": {"a": "b"}}}
    ).status_code in {409, 422}
    assert "deletionTimestamp" not in api.get(f"/pods/{name}").json()["metadata"]


def test_a_secret_gets_its_owner_later_and_its_content_never_changes(api: httpx.Client) -> None:
    made, owner = created(api, "secrets", secret(api)), created(api, "pods", pod(api))
    path = f"/secrets/{made['metadata']['name']}"
    assert patched(api, path, manifest.owned_by(owner)).status_code == 200
    assert api.get(path).json()["metadata"]["ownerReferences"][0]["uid"] == owner["metadata"]["uid"]
    assert reason(patched(api, path, {"data": {"wrapper.py": "eA=="}})) == (422, "Invalid")


def test_the_trys_secrets_are_deleted_by_label(api: httpx.Client) -> None:
    made = created(api, "secrets", secret(api))
    label = f"asset-watcher/try={made['metadata']['labels']['asset-watcher/try']}"
    assert api.request("DELETE", "/secrets", params={"labelSelector": "asset-watcher/try=another"}).status_code == 200
    assert api.get(f"/secrets/{made['metadata']['name']}").status_code == 200
    assert api.request("DELETE", "/secrets", params={"labelSelector": label}).status_code == 200
    assert api.get(f"/secrets/{made['metadata']['name']}").status_code == 404


def test_a_list_may_be_of_metadata_alone_and_of_none_it_is_null(api: httpx.Client) -> None:
    made = created(api, "secrets", secret(api))
    of_metadata = {"Accept": "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"}
    label = f"asset-watcher/try={made['metadata']['labels']['asset-watcher/try']}"
    some, none = (
        api.get("/secrets", params={"labelSelector": selector}, headers=of_metadata).json()["items"]
        for selector in (label, "asset-watcher/try=another")
    )
    assert [(each["metadata"]["name"], "data" in each) for each in some] == [(made["metadata"]["name"], False)]
    assert none is None


def test_a_secret_need_not_be_sent_back(api: httpx.Client) -> None:
    of_one = {"Accept": "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"}
    made = api.post("/secrets", json=secret(api), headers=of_one)
    assert (made.status_code, "data" in made.json()) == (201, False)
    merge = {**of_one, "Content-Type": "application/merge-patch+json"}
    name = made.json()["metadata"]["name"]
    changed = api.patch(f"/secrets/{name}", json={"metadata": {"labels": {"a": "b"}}}, headers=merge).json()
    assert (changed["metadata"]["labels"]["a"], "data" in changed) == ("b", False)
    of_lists = {"Accept": "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"}
    deleted = api.request("DELETE", "/secrets", params={"labelSelector": "a=b"}, headers=of_lists)
    assert [each.keys() & {"data", "metadata"} for each in deleted.json()["items"] or ()] in ([], [{"metadata"}])
    assert api.get(f"/secrets/{name}").status_code == 404


def test_a_selector_may_leave_out_a_label_that_others_lack(api: httpx.Client) -> None:
    created(api, "pods", pod(api))
    selector = f"asset-watcher/installation={INSTALLATION},spark-role"
    left_out, chosen = (
        api.get("/pods", params={"labelSelector": f"{selector}{operator}executor"}).json()["items"]
        for operator in ("!=", "=")
    )
    assert (len(left_out), chosen) == (1, [])


def test_a_watch_goes_on_behind_a_list(api: httpx.Client) -> None:
    label = {"labelSelector": f"asset-watcher/installation={INSTALLATION}"}
    listed = api.get("/pods", params=label).json()
    name = created(api, "pods", pod(api))["metadata"]["name"]
    patched(api, f"/pods/{name}", {"metadata": {"annotations": {"asset-watcher/stopped": "now"}}})
    where = {**label, "watch": "1", "resourceVersion": listed["metadata"]["resourceVersion"], "timeoutSeconds": "2"}
    with api.stream("GET", "/pods", params=where) as response:
        seen = [httpx.Response(200, text=line).json() for line in response.iter_lines()]
    assert [(each["type"], each["object"]["metadata"]["name"]) for each in seen] == [
        ("ADDED", name),
        ("MODIFIED", name),
    ]


def test_a_token_that_is_not_known_is_no_proof_of_absence(api: httpx.Client) -> None:
    answer = api.get("/pods/x", headers={"Authorization": "Bearer another"})
    assert answer.status_code == 401
