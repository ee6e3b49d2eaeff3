"""The Secret and the pod that are created for a try."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from config.features.kubernetes.settings import DriverPod
from tests.unit.submit.plain import make_submission
from watcher.submit.base import Submission, SubmitError
from watcher.submit.kubernetes import manifest, names
from watcher.submit.kubernetes.manifest import DriverCommand, Place

PLACE = Place(namespace="spark", installation="0a0a0a0a-0000-4000-8000-000000000000")
COMMAND = DriverCommand(argv=["spark-submit", "load.py"], environment={"PASSWORD": "geheim"})
POD = "aw-c7b611357a641b436bdb7c47"
"""`printf run-1-1 | sha256sum | cut -c -24`"""


def submission(**more: Any) -> Submission:
    return make_submission("1", Path("/jobs/load.py"), **more)


def driver_pod(**more: Any) -> dict[str, Any]:
    return manifest.pod(submission(), PLACE, DriverPod.model_validate({"image": "watcher:1", **more}))


def test_names_are_functions_of_the_try_and_of_its_submission() -> None:
    assert names.pod_name("run-1-1") == POD
    assert names.pod_name("run-1-2") != POD
    assert names.secret_name(POD, "secret-token") == f"{POD}-930bbdc5"  # printf secret-token | sha256sum
    assert names.secret_name(POD, "another") != names.secret_name(POD, "secret-token")


def test_only_whole_tag_and_installation_prove_that_a_pod_is_the_trys() -> None:
    own = driver_pod()["metadata"]
    assert names.is_of_try(own, "run-1-1", PLACE.installation)
    assert not names.is_of_try(own, "run-1-1", "another")
    assert not names.is_of_try(own, "run-1-2", PLACE.installation)
    assert not names.is_of_try({"name": POD}, "run-1-1", PLACE.installation)


def test_the_pod_shows_no_secret() -> None:
    secret = manifest.secret(submission(), PLACE, COMMAND, {"wrapper.py": b"pass"})
    shown = json.dumps(driver_pod())
    assert "geheim" not in shown
    assert "secret-token" not in shown
    contents = {name: base64.b64decode(text) for name, text in secret["data"].items()}
    assert json.loads(contents["order.json"]) == {
        "argv": ["spark-submit", "load.py"],
        "environment": {"PASSWORD": "geheim"},
        "renew_every": 10.0,
        "lease": 60.0,
    }
    assert json.loads(contents["context.json"]) == {"token": "secret-token"}
    assert contents["wrapper.py"] == b"pass"


def test_the_pod_cannot_start_without_the_secret_of_its_own_submission() -> None:
    secret = manifest.secret(submission(), PLACE, COMMAND, {})
    volume = next(each for each in driver_pod()["spec"]["volumes"] if "secret" in each)
    assert volume["secret"] == {"secretName": secret["metadata"]["name"], "optional": False}


def test_both_bear_the_installations_label_and_the_pod_its_finalizer() -> None:
    secret = manifest.secret(submission(), PLACE, COMMAND, {})
    pod = driver_pod()
    assert secret["metadata"]["labels"] == pod["metadata"]["labels"]
    assert pod["metadata"]["labels"]["asset-watcher/installation"] == PLACE.installation
    assert pod["metadata"]["finalizers"] == ["asset-watcher/try"]


def test_a_secret_that_would_be_too_large_is_refused_with_the_way_out() -> None:
    with pytest.raises(SubmitError, match=r"big\.jar first, in the image") as refused:
        manifest.secret(submission(), PLACE, COMMAND, {"small.py": b"1", "big.jar": b"x" * 900_000})
    assert not refused.value.retryable


def test_only_a_driver_with_executors_gets_its_accounts_token() -> None:
    assert driver_pod()["spec"]["automountServiceAccountToken"] is False
    with_executors = driver_pod(executor={"memory": "2Gi"}, service_account="spark")
    assert with_executors["spec"]["automountServiceAccountToken"] is True
    assert with_executors["spec"]["serviceAccountName"] == "spark"


def test_a_template_adds_and_cannot_take_away() -> None:
    pod = driver_pod(
        template={
            "metadata": {"labels": {"team": "orders"}, "annotations": {"karpenter.sh/do-not-disrupt": "false"}},
            "spec": {
                "nodeSelector": {"disk": "fast"},
                "volumes": [{"name": "data", "emptyDir": {}}],
                "securityContext": {"runAsUser": 1000},
                "containers": [
                    {"name": "proxy", "image": "proxy:1"},
                    {"name": "driver", "volumeMounts": [{"name": "data", "mountPath": "/data"}]},
                ],
            },
        }
    )
    spec = pod["spec"]
    assert pod["metadata"]["labels"].items() >= {"team": "orders", "asset-watcher/try": POD}.items()
    assert pod["metadata"]["annotations"]["karpenter.sh/do-not-disrupt"] == "true"
    assert spec["nodeSelector"] == {"disk": "fast"}
    assert spec["securityContext"] == {
        "runAsUser": 1000,
        "runAsNonRoot": True,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    assert [each["name"] for each in spec["containers"]] == ["driver", "proxy"]
    mounts = [each["mountPath"] for each in spec["containers"][0]["volumeMounts"]]
    assert mounts == ["/asset-watcher/secret", "/asset-watcher/work", "/asset-watcher/private", "/data"]
    assert [each["name"] for each in spec["volumes"]][-1] == "data"


@pytest.mark.parametrize(
    ("template", "named"),
    [
        ({"metadata": {"name": "mine"}}, r"metadata\.name"),
        ({"metadata": {"finalizers": []}}, r"metadata\.finalizers"),
        ({"metadata": {"labels": {"asset-watcher/try": "x"}}}, "asset-watcher/"),
        ({"spec": {"restartPolicy": "Always"}}, "restartPolicy"),
        ({"spec": {"containers": [{"name": "driver", "image": "other"}]}}, "`image` of the container"),
        (
            {"spec": {"containers": [{"name": "driver", "command": ["sh"]}]}},
            "`command` of .*: its first process is the",
        ),
        ({"spec": {"containers": [{"name": "driver", "args": ["-c"]}]}}, "`args` of .* wrapper"),
        ({"containers": []}, "`metadata` and `spec` only"),
        ({"spec": []}, "mappings"),
    ],
)
def test_what_a_template_may_not_set_is_refused(template: dict[str, Any], named: str) -> None:
    with pytest.raises(ValueError, match=named):
        driver_pod(template=template)
