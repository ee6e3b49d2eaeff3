"""The calls of Airflow's client, taken from the client itself, compared with our document."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, get_args

from airflow_client import client
from pydantic import BaseModel

APIS: Final = (
    "AssetApi",
    "AssetStateStoreApi",
    "DAGApi",
    "DagRunApi",
    "DagVersionApi",
    "ExtraLinksApi",
    "MonitorApi",
    "TaskInstanceApi",
    "TaskStateStoreApi",
    "VersionApi",
)
"""The client's APIs about things that exist here."""
OTHER_NAMES: Final = {
    "TaskInletAssetReference": "TaskAssetReference",
    "TaskOutletAssetReference": "TaskAssetReference",
    "ClearTaskInstanceCollectionResponse": "TaskInstanceCollectionResponse",
    **{
        f"Bulk{kind}{entity}": f"Bulk{kind}_{entity}_"
        for kind in ("CreateAction", "UpdateAction", "DeleteAction")
        for entity in ("BulkDAGRunBody", "BulkTaskInstanceBody")
    },
    "BulkBodyBulkDAGRunBody": "BulkDAGRunsBody",
    "BulkBodyBulkTaskInstanceBody": "BulkTaskInstancesBody",
}
"""Shapes of the client that have another name in our document."""
NO_SHAPES: Final = re.compile(
    r"(Actions|Entities|TaskInstances|TaskIds)Inner\d*$|^(Content|ExpiresAt)$|^ResponseClearDagRuns?$"
)
"""Shapes that the client's generator made for a choice of several shapes."""
BY_THEIR_ANSWERS: Final = frozenset(
    {
        "BaseInfoResponse",
        "DagProcessorInfoResponse",
        "HealthInfoResponse",
        "SchedulerInfoResponse",
        "StructuredLogMessage",
        "TaskInstancesLogResponse",
        "TriggererInfoResponse",
        "VersionInfo",
    }
)
"""Shapes of health, version and logs, which the client reads in test_airflow_client.py."""


@dataclass(frozen=True, kw_only=True)
class Operation:
    """A method of the client."""

    method: str
    path: str
    query: frozenset[str]
    models: frozenset[str]
    """The models of the method's body and answer."""

    @property
    def route(self) -> str:
        return f"{self.method} {nameless(self.path)}"


def nameless(path: str) -> str:
    """Return the parameters' names. Parameters of a path have no name in the request."""
    return re.sub(r"\{[^}]*\}", "{}", path)


def operations(api: str) -> Iterator[Operation]:
    kind = getattr(client, api)
    for name, method in inspect.getmembers(kind, inspect.isfunction):
        serialize = getattr(kind, f"_{name}_serialize", None)
        if serialize is None:
            continue
        source = inspect.getsource(serialize)
        bodies = re.findall(r"\b(\w+(?:Body\w*))\b", str(inspect.signature(method)))
        answers = re.findall(r"'200': \"(\w+)\"", inspect.getsource(method))
        yield Operation(
            method=_first(r"method='(\w+)'", source),
            path=_first(r"resource_path='([^']+)'", source),
            query=frozenset(re.findall(r"_query_params.append\(\('(\w+)'", source)),
            models=frozenset(model for model in (*bodies, *answers) if hasattr(client, model)),
        )


def _first(pattern: str, text: str) -> str:
    match = re.search(pattern, text)
    assert match, pattern
    return match[1]


def reachable(names: frozenset[str]) -> Mapping[str, frozenset[str]]:
    """Return the members by name of these models and of the models within them."""
    members: dict[str, frozenset[str]] = {}
    ahead = set(names)
    while ahead:
        model = getattr(client, name := ahead.pop())
        if name in members or name in BY_THEIR_ANSWERS or not issubclass(model, BaseModel):
            continue
        fields = model.model_fields
        members[name] = frozenset(field.alias or at for at, field in fields.items()) - {
            "additional_properties",
        }
        ahead |= {held for field in fields.values() for held in _models_in(field.annotation)}
    return members


def _models_in(annotation: Any) -> Iterator[str]:
    if inspect.isclass(annotation) and hasattr(client, annotation.__name__):
        yield annotation.__name__
    for part in get_args(annotation):
        yield from _models_in(part)


def missing(document: Mapping[str, Any]) -> set[str]:
    """Return what the client has and our document lacks: routes, `route?parameter`, and `Shape.member`."""
    routes = {
        f"{method.upper()} {nameless(path)}": operation
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    }
    schemas = document["components"]["schemas"]
    lacking: set[str] = set()
    for operation in (each for api in APIS for each in operations(api)):
        served = routes.get(operation.route)
        if served is None:
            lacking.add(f"{operation.method} {operation.path}")
            continue
        offered = {parameter["name"] for parameter in served.get("parameters", ())}
        lacking |= {f"{operation.method} {operation.path}?{name}" for name in operation.query - offered}
        for name, members in reachable(operation.models).items():
            ours = schemas.get(OTHER_NAMES.get(name, name))
            if NO_SHAPES.search(name):
                continue
            if ours is None:
                lacking.add(name)
            elif "properties" in ours:
                lacking |= {f"{name}.{member}" for member in members - ours["properties"].keys()}
    return lacking
