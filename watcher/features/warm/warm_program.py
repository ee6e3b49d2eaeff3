"""The Python program of a warm driver: spark-submit runs it with the driver's folder and the application as arguments.

It makes the session, has Spark do once what most jobs begin with, reports that it is ready, and waits for the folder of
its try. Then it becomes the application, as Python would have started it: with its arguments, its import path, its
working folder and the context of the try. `warm/shim.py` is at the other end of both pipes. Standard library and PySpark
only.
"""

from __future__ import annotations

import io
import json
import os
import sys
import traceback
from contextlib import suppress
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import TracebackType

    from pyspark.sql import SparkSession

REHEARSAL: Final = "asset-watcher-rehearsal"
FIRST_JOB: Final = "spark.asset_job.first_job"
"""The property that holds the number of the first Spark job of the try itself."""


def main(folder: Path, application: str) -> None:
    if not sys.flags.safe_path:
        sys.path[0] = str(Path(application).parent)
    session = None
    if "PYSPARK_GATEWAY_PORT" in os.environ:
        from pyspark.sql import SparkSession  # noqa: PLC0415  after the import path is the application's

        session = SparkSession.builder.getOrCreate()
        (folder / "application").write_text(session.sparkContext.applicationId, encoding="utf-8")
        rehearse(session, folder)
    load_sdk()
    try_folder = wait(folder)
    arguments = json.loads((try_folder / "arguments.json").read_bytes())
    os.chdir(try_folder / "work")
    os.environ["ASSET_JOB_CONTEXT"] = str(try_folder / "context.json")
    if session is not None:
        configure(session, arguments["conf"])
        refuse_other_contexts(session)
    become(application, arguments["args"])


def rehearse(session: SparkSession, folder: Path) -> None:
    """Have classes loaded and code compiled before the try comes. The job has a group of its own, so that it is not counted."""
    context = session.sparkContext
    sample = folder / "sample.txt"
    sample.write_text("1\n", encoding="utf-8")
    context.setJobGroup(REHEARSAL, "before the try")
    session.read.text(sample.as_uri()).count()
    for name in ("spark.jobGroup.id", "spark.job.description", "spark.job.interruptOnCancel", "spark.job.tags"):
        context._jsc.setLocalProperty(name, None)  # noqa: SLF001  it takes no None
    sample.unlink()


def load_sdk() -> None:
    """Import what most applications import first, from where they would. It may be missing."""
    with suppress(ImportError):
        import asset_job.sources.readers  # noqa: F401, PLC0415  as above


def wait(folder: Path) -> Path:
    """Wait for a try, and return its folder. The process ends here when the shim ends."""
    # Opening must not hang: without a shim nothing would ever open it for writing.
    gate = os.open(folder / "gate", os.O_RDONLY | os.O_NONBLOCK)
    os.set_blocking(gate, True)
    with (folder / "ready").open("wb", buffering=0) as ready:
        ready.write(b"1")
    with os.fdopen(gate, "rb", buffering=0) as file:
        line = file.readline()
    if not line.endswith(b"\n"):
        os._exit(0)
    return Path(line.decode().rstrip("\n"))


def configure(session: SparkSession, conf: Mapping[str, str]) -> None:
    """Set the try's own properties, as a cold start would have them in SparkConf(), the context and the session."""
    context = session.sparkContext
    system: Any = context._jvm.java.lang.System  # type: ignore[union-attr]  # noqa: SLF001
    jobs = context.statusTracker().getJobIdsForGroup(REHEARSAL)
    for key, value in {**conf, FIRST_JOB: str(max(jobs, default=-1) + 1)}.items():
        system.setProperty(key, value)
        context._conf.set(key, value)  # noqa: SLF001
        session.conf.set(key, value)


def refuse_other_contexts(session: SparkSession) -> None:
    """Refuse with a sentence what a warm driver cannot give the program, as long as the driver's context lives."""
    from pyspark import SparkContext  # noqa: PLC0415
    from pyspark.sql import SparkSession  # noqa: PLC0415

    ours = session.sparkContext
    make_context, get_context, get_session = (
        SparkContext.__init__,
        SparkContext.getOrCreate,
        SparkSession.Builder.getOrCreate,
    )

    def is_ours() -> bool:
        return SparkContext._active_spark_context is ours  # noqa: SLF001

    def __init__(self: SparkContext, *arguments: Any, **options: Any) -> None:  # noqa: N807
        if is_ours():
            raise RuntimeError(
                "the program makes its own SparkContext, and a warm driver has one already: use "
                "SparkSession.builder.getOrCreate(), or set the job's `warm: 0`"
            )
        make_context(self, *arguments, **options)

    def get_or_create_context(_kind: type[SparkContext], conf: Any = None) -> SparkContext:
        if is_ours() and conf is not None:
            free_settings(session, dict(conf.getAll()))
        return get_context(conf)

    def get_or_create(self: SparkSession.Builder) -> SparkSession:
        if is_ours():
            self._options = free_settings(session, self._options)
        return get_session(self)

    SparkContext.__init__ = __init__  # type: ignore[method-assign]
    SparkContext.getOrCreate = classmethod(get_or_create_context)  # type: ignore[assignment]
    SparkSession.Builder.getOrCreate = get_or_create  # type: ignore[method-assign]


def free_settings(session: SparkSession, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that can still be set. Raises RuntimeError for one that had to be set before the start.

    The application's name is ignored: it keeps its job's.
    """
    configured = session.sparkContext._conf  # noqa: SLF001  a copy would ask the JVM for each entry, and most programs need none
    free = {key: value for key, value in options.items() if is_free(session, key)}
    for key in options.keys() - free.keys() - {"spark.app.name"}:
        text = as_text(options[key])
        if configured.get(key) != text:
            raise RuntimeError(
                f"the program asks for {key}={text}, and the warm driver was started with "
                f"{configured.get(key, 'no such setting')}: put it into the job's spark `conf`, or set the job's `warm: 0`"
            )
    return free


def is_free(session: SparkSession, key: str) -> bool:
    """Whether a session accepts the setting at any time. It also accepts SQL settings that Spark itself does not know."""
    if key.startswith("spark.sql."):
        static: Any = session._jvm.org.apache.spark.sql.internal.SQLConf  # type: ignore[union-attr]  # noqa: SLF001
        return not static.isStaticConfigKey(key)
    return session.conf.isModifiable(key)


def as_text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def become(application: str, args: list[str]) -> None:
    """Run the application as `__main__`. A failure's trace begins where the application's code begins."""
    sys.argv = [application, *args]
    module = ModuleType("__main__")
    module.__dict__.update(
        __file__=application,
        __cached__=None,
        __loader__=SourceFileLoader("__main__", application),
        __builtins__=__builtins__,
    )
    sys.modules["__main__"] = module
    try:
        with io.open_code(application) as file:
            source = file.read()
    except OSError as error:
        sys.stderr.write(f"{sys.executable}: can't open file {application!r}: [Errno {error.errno}] {error.strerror}\n")
        sys.exit(2)
    run_to_end(lambda: exec(compile(source, application, "exec", dont_inherit=True), module.__dict__))  # noqa: S102


def run_to_end(program: Callable[[], None]) -> None:
    try:
        program()
    except SystemExit:
        raise
    except BaseException as error:  # noqa: BLE001  as Python itself ends a program, without our frames
        frames = application_frames(error.__traceback__)
        if sys.excepthook is sys.__excepthook__:
            traceback.print_exception(type(error), error, frames)
        else:
            sys.excepthook(type(error), error, frames)
        sys.exit(1)


def application_frames(frames: TracebackType | None) -> TracebackType | None:
    """The trace from the application's first frame to its last one, without the frames of a refusal raised here."""
    while frames is not None and frames.tb_frame.f_code.co_filename == __file__:
        frames = frames.tb_next
    frame = last = frames
    while frame is not None:
        last = last if frame.tb_frame.f_code.co_filename == __file__ else frame
        frame = frame.tb_next
    if last is not None:
        last.tb_next = None
    return frames


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
