"""The driver's Python of a warm driver: run by spark-submit, with the driver's folder and the application as arguments.

It makes the session, has Spark do once what most jobs begin with, says so, and waits for the folder of its try. Then it
becomes the application, as Python would have started it: with its arguments, its import path, its working folder and the
context of the try. `warm_shim.py` is at the other end of both pipes. Standard library and PySpark only.
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
"""The number of the first Spark job that is the try's own."""


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
    one_try = wait(folder)
    arguments = json.loads((one_try / "arguments.json").read_bytes())
    os.chdir(one_try / "work")
    os.environ["ASSET_JOB_CONTEXT"] = str(one_try / "context.json")
    if session is not None:
        configure(session, arguments["conf"])
        guard(session)
    become(application, arguments["args"])


def rehearse(session: SparkSession, folder: Path) -> None:
    """Classes are loaded, and code is compiled, while nobody waits. In a job group of its own, so that nobody counts it."""
    context = session.sparkContext
    sample = folder / "sample.txt"
    sample.write_text("1\n", encoding="utf-8")
    context.setJobGroup(REHEARSAL, "before the try")
    session.read.text(sample.as_uri()).count()
    for name in ("spark.jobGroup.id", "spark.job.description", "spark.job.interruptOnCancel", "spark.job.tags"):
        context._jsc.setLocalProperty(name, None)  # noqa: SLF001  it takes no None
    sample.unlink()


def load_sdk() -> None:
    """What most applications import first, from where they would; without it they do without."""
    with suppress(ImportError):
        import asset_job.sources.readers  # noqa: F401, PLC0415  as above


def wait(folder: Path) -> Path:
    """Until there is a try. The process ends here when the shim does."""
    # Not to hang in opening it: without a shim nobody would ever have it open for writing.
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
    """What a cold start has in Spark's configuration of the try itself: as SparkConf(), the context and the session have it."""
    context = session.sparkContext
    system: Any = context._jvm.java.lang.System  # type: ignore[union-attr]  # noqa: SLF001
    jobs = context.statusTracker().getJobIdsForGroup(REHEARSAL)
    for key, value in {**conf, FIRST_JOB: str(max(jobs, default=-1) + 1)}.items():
        system.setProperty(key, value)
        context._conf.set(key, value)  # noqa: SLF001
        session.conf.set(key, value)


def guard(session: SparkSession) -> None:
    """What a warm driver cannot give a program is refused with a sentence, as long as its context lives."""
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

    def __init__(self: SparkContext, *words: Any, **more: Any) -> None:  # noqa: N807
        if is_ours():
            raise RuntimeError(
                "the program makes its own SparkContext, and a warm driver has one already: use "
                "SparkSession.builder.getOrCreate(), or set the job's `warm: 0`"
            )
        make_context(self, *words, **more)

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
    """Those that are still to be made. Raises RuntimeError for one that could only have been made before the start.

    A name is none: the application keeps its job's.
    """
    has = session.sparkContext._conf  # noqa: SLF001  each entry of a copy would be asked of the JVM, and most programs ask for none
    free = {key: value for key, value in options.items() if is_free(session, key)}
    for key in options.keys() - free.keys() - {"spark.app.name"}:
        text = as_text(options[key])
        if has.get(key) != text:
            raise RuntimeError(
                f"the program asks for {key}={text}, and the warm driver was started with "
                f"{has.get(key, 'no such setting')}: put it into the job's spark `conf`, or set the job's `warm: 0`"
            )
    return free


def is_free(session: SparkSession, key: str) -> bool:
    """Whether a session takes it at any time; of SQL's settings those, too, that Spark itself does not know."""
    if key.startswith("spark.sql."):
        static: Any = session._jvm.org.apache.spark.sql.internal.SQLConf  # type: ignore[union-attr]  # noqa: SLF001
        return not static.isStaticConfigKey(key)
    return session.conf.isModifiable(key)


def as_text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def become(application: str, args: list[str]) -> None:
    """Run the application as `__main__`. A failure's trace begins where the application's code does."""
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
    except BaseException as error:  # noqa: BLE001  Python's own way to the end of a program, without our frames
        frames = without_ours(error.__traceback__)
        if sys.excepthook is sys.__excepthook__:
            traceback.print_exception(type(error), error, frames)
        else:
            sys.excepthook(type(error), error, frames)
        sys.exit(1)


def without_ours(frames: TracebackType | None) -> TracebackType | None:
    """From the application's code to its last line, also where the refusal came from here."""
    while frames is not None and frames.tb_frame.f_code.co_filename == __file__:
        frames = frames.tb_next
    each = last = frames
    while each is not None:
        last = last if each.tb_frame.f_code.co_filename == __file__ else each
        each = each.tb_next
    if last is not None:
        last.tb_next = None
    return frames


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
