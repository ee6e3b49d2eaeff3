"""Keys of a job's `spark` section that say what spark-submit is given: their units, and what is refused as it would."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Final, Self, TypeAlias

from pydantic import AfterValidator, Discriminator, Field, Tag, model_validator

from config.section import MOST, Section
from config.sentences import misplaced

ARGUMENT_NAMES: Final = (
    *("run_id", "dag_id", "task_id", "try_number", "conf", "triggering_asset_events"),
    *("logical_date", "data_interval_start", "data_interval_end", "partition_key"),
)
"""What templates in `spark.args` may use."""
DEPLOY_MODE: Final = "spark.submit.deployMode"
_WHY_CLIENT: Final = (
    "the driver runs beside the daemon, which hands it its context and its token in a file, and finds, stops and fences it "
    "as a process of this machine; in cluster mode it would be none"
)


def _check_memory(memory: str) -> str:
    if not re.fullmatch("[1-9][0-9]*[kmgt]", memory, re.IGNORECASE):
        raise ValueError("must be an amount of memory such as `512m` or `2g`")
    return memory


def check_files(files: tuple[str, ...], master: str | None) -> tuple[str, ...]:
    """Raises `ValueError` for what Spark's own `SparkContext.addFile` refuses when the driver has begun."""
    if master is not None and master != "yarn" and any("#" in file for file in files):
        raise ValueError("`#name` behind a file renames it on YARN only: elsewhere it keeps its name")
    return files


Memory: TypeAlias = Annotated[str, AfterValidator(_check_memory)]


def _check_argument(argument: str) -> str:
    if "{" in argument:
        from config.templates import is_template, template_fault  # noqa: PLC0415  most jobs have none, and it takes long

        if is_template(argument) and (fault := template_fault(argument, ARGUMENT_NAMES)):
            raise ValueError(fault)
    return argument


TemplateCheck: Final = AfterValidator(_check_argument)


class DynamicAllocation(Section):
    min: Annotated[int, Field(ge=0, le=MOST)] = 0
    """Fewest executors."""
    max: Annotated[int, Field(ge=1, le=MOST)] | None = None
    """Most executors; null sets no bound."""

    @model_validator(mode="after")
    def _check_bounds(self) -> Self:
        if self.max is not None and self.max < self.min:
            raise ValueError("`max` must be at least `min`")
        return self


Allocation: TypeAlias = Annotated[
    Annotated[bool, Tag("switch")] | Annotated[DynamicAllocation, Tag("bounds")],
    Discriminator(lambda given: "bounds" if isinstance(given, dict | DynamicAllocation) else "switch"),
]


def check_deploy_mode(properties: Mapping[str, str]) -> None:
    """Refuse the cluster mode in Spark's properties. Raises `ValidationError` with the reason."""
    if properties.get(DEPLOY_MODE, "client").strip() != "client":
        raise misplaced(properties, ((DEPLOY_MODE,), f"must be `client`: {_WHY_CLIENT}"))


def check_mode_key(spark: Any) -> Any:
    """The section itself. Raises `ValidationError` with the reason where it asks for another mode in spark-submit's words."""
    asked = [key for key in ("deploy_mode", "deployMode") if isinstance(spark, dict) and key in spark]
    if asked:
        raise misplaced(spark, *(((key,), f"is always `client`, so remove it: {_WHY_CLIENT}") for key in asked))
    return spark
