"""The `spark` section of a job: what spark-submit is given, the units of its keys, and what Spark itself would refuse."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self, TypeAlias

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Discriminator,
    Field,
    SecretStr,
    Tag,
    ValidationError,
    ValidationInfo,
    WithJsonSchema,
    field_validator,
    model_validator,
)

from config.models.ingest import BUILTIN, INGEST, IngestConfig
from config.models.passing import argument_fault, property_fault, variable_fault
from config.models.values import ConnectionName, Place
from config.names import did_you_mean
from config.section import LARGEST_INT, Section
from config.sentences import misplaced, sentences

ARGUMENT_NAMES: Final = (
    *("run_id", "dag_id", "task_id", "try_number", "conf", "triggering_asset_events"),
    *("logical_date", "data_interval_start", "data_interval_end", "partition_key"),
)
"""What templates in `spark.args` may use."""
DEPLOY_MODE: Final = "spark.submit.deployMode"
_WHY_CLIENT: Final = (
    "the driver runs beside the daemon, which passes it its context and token in a file, and finds, stops and fences it as a "
    "process of this machine; a driver in cluster mode is not one"
)


def _text(value: Any) -> Any:
    """A number or a truth value as text: Spark's properties and the environment hold texts only."""
    return value if isinstance(value, str | dict | list | None) else json.dumps(value)


_SCALAR: Final = WithJsonSchema({"type": ["string", "number", "boolean"]})
Text: TypeAlias = Annotated[str, BeforeValidator(_text), _SCALAR]
SecretText: TypeAlias = Annotated[SecretStr, BeforeValidator(_text), _SCALAR]


_LARGEST_GIGABYTES: Final = 64
"""The largest number without a unit that is taken for gigabytes in a suggestion."""


def _check_memory(memory: Any) -> Any:
    if isinstance(memory, str) and re.fullmatch("[1-9][0-9]*[kmgt]", memory, re.IGNORECASE):
        return memory
    meant = _memory_meant(str(memory))
    remedy = f": write `{meant}`" if meant else ""
    raise ValueError(f"must be an amount of memory such as `512m` or `2g`, a whole number and its unit{remedy}")


def _memory_meant(written: str) -> str | None:
    """The amount that is meant by `2`, `2GB`, `1.5g` or `2 Gi`; None if that cannot be told."""
    match = re.fullmatch(r"\s*([0-9]{1,9}(?:\.[0-9]{1,3})?)\s*([kmgt]?)i?b?\s*", written, re.IGNORECASE)
    if match is None or not float(match[1]):
        return None
    number, unit = float(match[1]), match[2].lower()
    if not unit:
        unit = "g" if number <= _LARGEST_GIGABYTES else "m" if number < 1024**2 else "k" if number < 1024**3 else ""
        if not unit:
            return None
    if number.is_integer():
        return f"{int(number)}{unit}"
    return None if unit == "k" else f"{round(number * 1024)}{'kmg'['mgt'.index(unit)]}"


Memory: TypeAlias = Annotated[str, BeforeValidator(_check_memory)]


def _check_argument(argument: str) -> str:
    if fault := argument_fault(argument):
        raise ValueError(fault)
    if "{" in argument:
        from config.models.templates import is_template, template_fault  # noqa: PLC0415  slow, and few jobs need it

        if is_template(argument) and (fault := template_fault(argument, ARGUMENT_NAMES)):
            raise ValueError(fault)
    return argument


Argument: TypeAlias = Annotated[Text, AfterValidator(_check_argument)]


class DynamicAllocation(Section):
    min: Annotated[int, Field(ge=0, le=LARGEST_INT)] = 0
    """Minimum number of executors."""
    max: Annotated[int, Field(ge=1, le=LARGEST_INT)] | None = None
    """Maximum number of executors; null sets no limit."""

    @model_validator(mode="after")
    def _check_bounds(self) -> Self:
        if self.max is not None and self.max < self.min:
            raise ValueError("`max` must be at least `min`")
        return self


Allocation: TypeAlias = Annotated[
    Annotated[bool, Tag("switch")] | Annotated[DynamicAllocation, Tag("bounds")],
    Discriminator(lambda given: "bounds" if isinstance(given, dict | DynamicAllocation) else "switch"),
]


def read_properties(text: str) -> dict[str, str]:
    """The properties in a file of Spark's, as `java.util.Properties` reads it. Like Spark, it trims the values.

    Raises `UnicodeError` for an escape that Java refuses, too.
    """
    from javaproperties import InvalidUEscapeError, loads  # noqa: PLC0415  slow, and few jobs have such a file

    try:
        return {key: value.strip(" \t\f") for key, value in loads(text).items()}
    except InvalidUEscapeError:
        raise UnicodeError("holds `\\u` without four hexadecimal digits; write a backslash as `\\\\`") from None


def write_properties(properties: Mapping[str, str]) -> str:
    """The text, in ASCII, that `java.util.Properties` reads as `properties`."""
    from javaproperties import dumps  # noqa: PLC0415  see `read_properties`

    return dumps(properties, timestamp=False)


def _check_application(application: str, info: ValidationInfo) -> str:
    if application.startswith(BUILTIN) and application != INGEST:
        raise ValueError(f"is not a built-in application; {did_you_mean(application, [INGEST])}")
    file = Path(application.removeprefix("file:"))
    if info.context and info.context.with_files and file.is_absolute() and not file.is_file():
        raise ValueError("there is no such file; relative paths start at the folder of the configuration")
    return application


def _check_conf(properties: dict[str, str]) -> dict[str, str]:
    """Return the properties. Raises `ValidationError` if they ask for the cluster mode, or would not arrive as they are."""
    if properties.get(DEPLOY_MODE, "client").strip() != "client":
        raise misplaced(properties, ((DEPLOY_MODE,), f"must be `client`: {_WHY_CLIENT}"))
    faults = [((name,), fault) for name, text in properties.items() if (fault := property_fault(text))]
    if faults:
        raise misplaced(properties, *faults)
    return properties


def _check_properties_file(place: str, info: ValidationInfo) -> str:
    """Return `place`. The file is read only if the scope asks for it: the daemon reads it when a try is submitted."""
    if info.context and info.context.with_files:
        try:
            _check_conf(read_properties(Path(place.removeprefix("file:")).read_text(encoding="utf-8")))
        except OSError:
            raise ValueError("there is no such file; relative paths start at the folder of the configuration") from None
        except UnicodeDecodeError:
            raise ValueError("is not UTF-8 text; save it as UTF-8") from None
    return place


class SparkParameters(Section):
    """The keys of a job's `spark` section that a submitter gets as they are: `watcher.submit.base.SparkApplication`."""

    application: Annotated[Place, AfterValidator(_check_application)]
    """A Python file, or `builtin:ingest`."""
    master: Annotated[str, Field(min_length=1)] = "local[*]"
    """Spark's master URL. The driver always runs on this machine (client mode)."""
    profile: Literal["small", "large"] = "small"
    """`small` starts quickly; `large` leaves the JVM as it is."""
    driver_memory: Memory = "512m"
    """Heap of the driver."""
    executor_memory: Memory | None = None
    """Heap of each executor of a cluster; null is Spark's default."""
    executor_cores: Annotated[int, Field(ge=1, le=LARGEST_INT)] | None = None
    """Cores of each executor of a cluster; null is Spark's default."""
    num_executors: Annotated[int, Field(ge=1, le=LARGEST_INT)] | None = None
    """Number of executors on YARN and Kubernetes; with `dynamic_allocation`, the number at the start."""
    dynamic_allocation: Allocation = False
    """Use as many executors as there is work for: `true`, or `{min, max}`."""
    conf: Annotated[dict[str, Text], AfterValidator(_check_conf)] = Field(default_factory=dict)
    """Spark properties. Spark's UI and event log show them, so they must not hold credentials."""
    packages: tuple[str, ...] = ()
    """Maven coordinates."""
    jars: tuple[Place, ...] = ()
    """Jar files."""
    py_files: tuple[Place, ...] = ()
    """Python files and archives for the driver and the executors."""
    files: tuple[Place, ...] = ()
    """Files for the working folder of each executor. `#name` after a file renames it, on YARN only."""
    archives: tuple[Place, ...] = ()
    """Archives that are unpacked in the working folder of each executor, such as a packed virtual environment. `#name` after
    an archive names its folder."""
    properties_file: Annotated[Place, AfterValidator(_check_properties_file)] | None = None
    """A file of Spark properties; those in `conf` win."""
    args: tuple[Argument, ...] = ()
    """Arguments of the application. Templates in them (`{{ run_id }}`) are rendered for each run."""
    python: str | None = None
    """Python of the driver and the executors; null is the daemon's."""


class SparkConfig(SparkParameters):
    submitter: Annotated[str, Field(min_length=1)] = "spark-submit"
    """How Spark is started: `spark-submit`, `kubernetes`, or the dotted path of a class on `plugins_dir`. The options of the last
    two stand beside this key."""
    warm: Annotated[int, Field(ge=0, le=LARGEST_INT)] = 0
    """Number of drivers that are started ahead, as far as `settings.scheduler.warm_memory_mb` allows. Each is used for one
    try. Not for `yarn` and `k8s` masters."""
    env: dict[str, SecretText] = Field(default_factory=dict)
    """Environment of the driver."""
    connections: tuple[ConnectionName, ...] = ()
    """Connections whose credentials the job's private context holds."""
    options: dict[str, Any] = Field(default_factory=dict)
    """Options of the application; those of `builtin:ingest` are checked."""

    @field_validator("files")
    @classmethod
    def _check_files(cls, files: tuple[str, ...], info: ValidationInfo) -> tuple[str, ...]:
        """Refuse what Spark's own `SparkContext.addFile` would refuse after the driver has started."""
        master = info.data.get("master")
        if master is not None and master != "yarn" and any("#" in file for file in files):
            raise ValueError("`#name` after a file renames it on YARN only; remove it")
        return files

    @model_validator(mode="before")
    @classmethod
    def _check_deploy_mode(cls, section: Any) -> Any:
        """Refuse another deploy mode in spark-submit's words."""
        given = [key for key in ("deploy_mode", "deployMode") if isinstance(section, dict) and key in section]
        if given:
            raise misplaced(section, *(((key,), f"is always `client`, so remove it: {_WHY_CLIENT}") for key in given))
        return section

    @field_validator("env")
    @classmethod
    def _check_env(cls, env: dict[str, SecretStr]) -> dict[str, SecretStr]:
        values = {name: secret.get_secret_value() for name, secret in env.items()}
        faults = [((name,), fault) for name, text in values.items() if (fault := variable_fault(name, text))]
        if faults:
            raise misplaced(env, *faults)
        return env

    @field_validator("warm")
    @classmethod
    def _check_warm(cls, warm: int, info: ValidationInfo) -> int:
        if warm and (obstacle := _why_not_warm(info.data)):
            raise ValueError(f"{obstacle}; remove it")
        return warm

    @field_validator("options")
    @classmethod
    def _check_options(cls, options: dict[str, Any], info: ValidationInfo) -> dict[str, Any]:
        if info.data.get("application") == INGEST:
            try:
                checked = IngestConfig.model_validate(options, context=info.context)
            except ValidationError as error:
                raise misplaced(options, *sentences(error, IngestConfig, options)) from None
            return checked.model_dump(mode="json", by_alias=True, exclude_unset=True)
        return options


def _why_not_warm(spark: Mapping[str, Any]) -> str:
    """Why no drivers can be started ahead for this section; "" if they can."""
    if spark.get("submitter", "spark-submit") != "spark-submit":
        return "drivers are started ahead by `spark-submit` only"
    if not spark.get("master", "local").startswith(("local", "spark://")):
        return "drivers are started ahead for masters `local…` and `spark://…` only"
    if re.match("(?!file:)[A-Za-z][A-Za-z0-9+.-]+:", str(spark.get("application", "")).removeprefix(BUILTIN)):
        return "drivers are started ahead for applications on this machine only"
    return ""
