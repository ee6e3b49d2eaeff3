"""Why a job failed, as its log says: log text in, a sentence and the line that it is about out. Pure.

The driver's last exception comes first. A cause that its text identifies is reported with a remedy. If Python only
reports that its JVM is gone, or there is no exception at all, the rest of the text is searched, too.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import Final

MORE_MEMORY: Final = (
    "the machine is out of memory: raise the memory of the machine or of its container, or lower settings.scheduler.memory_mb, so "
    "that fewer drivers run at a time"
)
"""What is wrong, and what to do, when the system kills a process."""
_NEWER_JAVA: Final = (
    "install Java {needed} or newer (Debian, Ubuntu: apt-get install openjdk-{needed}-jre-headless) or set JAVA_HOME"
)
TAIL: Final = 64 * 1024
"""Bytes of a log's end that are enough to explain a failure."""
_LONGEST: Final = 400


@dataclass(frozen=True, kw_only=True)
class FailureReason:
    """A sentence about a failure. `line` counts from 0 in the given text; `place` is that in the job's own file, or ''."""

    sentence: str
    line: int
    place: str = ""
    guessed: bool = False
    """It is only the last line of the log; people have to judge what it means."""


_CAUSES: Final = {
    r"UnsupportedClassVersionError.*class file version (?P<needed_class>\d+).* up to (?P<found_class>\d+)": (
        f"Java {{found}} is too old for the driver: {_NEWER_JAVA}"
    ),
    r"UnsupportedClassVersionError|Unrecognized option: --add-(?:opens|modules|exports)": (
        f"the Java of the driver is too old: {_NEWER_JAVA.format(needed=17)}"
    ),
    r"OutOfMemoryError: (?P<what>[\w ]+)": (
        "the driver ran out of memory ({what}): raise the job's driver_memory, or collect less data in the driver"
    ),
    r"System memory (?P<bytes>\d+) must be at least": (
        "the driver's heap is too small for Spark: raise the job's driver_memory; the default is 512m"
    ),
    r"Could not reserve enough space for (?P<size>\w+) object heap|Initial heap size set to a larger value": (
        "this machine cannot give the driver its heap: lower the job's driver_memory"
    ),
    r"Master must either be|Could not parse Master URL": (
        "Spark knows no such master: correct the job's spark.master (local[*], spark://host:7077, yarn, k8s://https://host)"
    ),
    r"All masters are unresponsive": (
        "no Spark master answers at the job's spark.master: start it, or correct the address"
    ),
    r"either HADOOP_CONF_DIR or YARN_CONF_DIR must be set": (
        "the master yarn needs HADOOP_CONF_DIR or YARN_CONF_DIR: set it for the daemon, or in the job's spark.env"
    ),
    r"unresolved dependency: (?P<group>[^\s:#]+)#(?P<name>[^\s:;]+);(?P<version>[^\s:]+): not found": (
        "the package {group}:{name}:{version} could not be fetched: correct the job's spark.packages, or give the machine "
        "access to Maven, or list the jar itself in spark.jars"
    ),
    r"Class org\.apache\.hadoop\.fs\.s3a\.S3AFileSystem not found": (
        "s3a:// addresses need Hadoop's S3 connector: add org.apache.hadoop:hadoop-aws to the job's spark.packages"
    ),
    r"Service '(?P<service>\w+)' failed after \d+ retries": (
        "the driver could not open a port for {service}: correct spark.driver.bindAddress or SPARK_LOCAL_IP"
    ),
    r"No space left on device": ("a disk is full: free space where settings.home is, and where the job writes"),
    r"Python worker exited unexpectedly": (
        "a Python worker died in the middle of a task; unless a person killed it, it ran out of memory"
    ),
    r"ExecutorLostFailure \((?P<executor>executor \S+) exited[^)]*\)": (
        "Spark lost {executor} and gave up: it was killed, ran out of memory, or its machine is gone"
    ),
    r'Cannot run program "(?P<program>[^"]+)"': (
        "{program} does not run where the executors are: correct spark.python"
    ),
    r'User "system:serviceaccount:(?P<account>[^"]+)" cannot (?P<verb>\w+) resource "(?P<resource>\w+)"': (
        "the driver's account {account} may not {verb} {resource}: apply what `watcher kubernetes manifest` prints, and name its "
        "account of drivers in spark.kubernetes.service_account"
    ),
    r"^(?:[\w.]+\.)?_?(?:Array)?MemoryError\b": (
        "the driver's Python ran out of memory: let Spark hold the rows and collect fewer, or raise the memory of the machine"
    ),
    r"ModuleNotFoundError: No module named '(?P<module>pyarrow|obstore|deltalake|pyiceberg|py4j|pyspark)\b": (
        "{module} is missing in the job's Python: install it there, `python -m pip install {module}`; `watcher check --connect` names "
        "all that is missing"
    ),
    r"\[PACKAGE_NOT_INSTALLED\] (?P<package>\w+) >= (?P<version>[\w.]+) must be installed": (
        "{package} {version} or newer is missing in the job's Python: install it there, `python -m pip install {package}`"
    ),
    r"^Killed$|: line \d+: +\d+ Killed\b": (f"the driver was killed; unless a person did that, {MORE_MEMORY}"),
    r"can't open file '(?P<file>[^']+)'": ("the application {file} no longer exists"),
}
"""Sentences of known causes, by the pattern of a log line; searched in this order."""

_CLASSES_OF_JAVA: Final = 44
"""What the version of a class file is above the version of Java that it is for: 61 is Java 17 (JVM specification, 4.1)."""
_CRASH: Final = re.compile(
    r"^# +(?:A fatal error has been detected by|There is insufficient memory for) the Java Runtime"
)
_CRASH_FILE: Final = re.compile(r"\S*hs_err_pid\d+\.log")
_FRAME_OF_A_CRASH: Final = re.compile(r"^Problematic frame:\n(?P<frame>.+)$", re.MULTILINE)
_LINES_OF_A_SUMMARY: Final = 30

_CONSEQUENCE: Final = re.compile(
    r"stopped SparkContext|Py4JNetworkError|Answer from Java side is empty|ConnectionRefusedError|Connection reset|calling None\.None"
)
"""Exceptions of a Python process whose JVM is gone: the cause is elsewhere in the log."""
_JVM_GONE: Final = re.compile(
    r"Py4JNetworkError|Answer from Java side is empty|ConnectionRefusedError|Connection reset"
)
"""The exceptions among them that a program cannot cause itself by stopping Spark."""
_NO_JVM: Final = (
    f"the driver's JVM ended before its program: it was killed or it crashed; unless a person killed it, {MORE_MEMORY}"
)
_WRAPPER: Final = re.compile(r"\[FAILED_READ_FILE|\[TASK_WRITE_FAILED|Job aborted due to stage failure|Job aborted\.")
"""Exceptions that only say where something failed. What failed is the innermost cause, a stack trace further down."""
_EXCEPTION: Final = re.compile(r"(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?::.*)?$")
_JAVA: Final = re.compile(r'(?:: |Exception in thread ".*?" |Caused by: )(?P<rest>(?:[\w$]+\.)+[\w$]+(?::.*)?)$')
_FRAME: Final = re.compile(r'  File "(?P<file>[^"]+)", line (?P<line>\d+)')
_NOT_THE_JOBS: Final = re.compile(r"/site-packages/|/lib/python3|\.zip/|^<")
_NOISE: Final = re.compile(r"WARNING: |\d{4}-\d\d-\d\dT\S+ (?:WARN|INFO|DEBUG) |\{|\s")


def explain_log(text: str) -> FailureReason | None:
    """Return the reason that the end of a log gives; None if it gives none."""
    lines = [line.rstrip("\r") for line in text.split("\n")]  # lines are counted so elsewhere, too
    if crash := _crash(lines):
        return crash
    end = _last_traceback(lines)
    if end is None:
        return _known(lines, 0) or _java_exception(lines) or _last_line(lines)
    exception = _python_exception(lines, end)
    cause = _known(lines, exception.line)
    if cause is None and any(_CONSEQUENCE.search(line) for line in lines[exception.line :]):
        is_gone = any(_JVM_GONE.search(line) for line in lines[exception.line :])
        cause = _known(lines, 0) or (replace(exception, sentence=_NO_JVM) if is_gone else None)
    return cause or _unwrapped(lines, exception)


def _crash(lines: Sequence[str]) -> FailureReason | None:
    """Return what the JVM says of its own crash (its error handler's summary, in lines that begin with `#`); None if it did not."""
    first = next((number for number, line in enumerate(lines) if _CRASH.search(line)), None)
    if first is None:
        return None
    summary = "\n".join(line.removeprefix("#").strip() for line in lines[first : first + _LINES_OF_A_SUMMARY])
    file = _CRASH_FILE.search(summary)
    remedy = f"read {file[0]}" if file else "read the file hs_err_pid….log in the job's folder"
    if "insufficient memory" in summary:
        sentence = f"the JVM got no more memory from the system, and {MORE_MEMORY} ({remedy})"
    else:
        signal, frame = (
            re.search(r"^(?:SIG[A-Z]+|Internal Error)", summary, re.MULTILINE),
            _FRAME_OF_A_CRASH.search(summary),
        )
        what = " ".join(filter(None, (signal and f"by {signal[0]}", frame and f"in {frame['frame'].strip()}")))
        advice = "a native library, or this version of Java, is at fault: update or remove it"
        sentence = f"the driver's JVM crashed {what}".rstrip() + f": {remedy}; {advice}"
    return FailureReason(sentence=_cut(sentence), line=first)


def _unwrapped(lines: Sequence[str], exception: FailureReason) -> FailureReason:
    """Return the innermost cause of an exception that only wraps it, with the place that the wrapper names."""
    if not _WRAPPER.search(lines[exception.line]):
        return exception
    causes = [number for number in range(exception.line, len(lines)) if lines[number].startswith("Caused by: ")]
    inner = next((number for number in reversed(causes) if _JAVA.match(lines[number])), None)
    if inner is None:
        return exception
    match, file = _JAVA.match(lines[inner]), re.search(r"reading file (\S+?)\.? ", lines[exception.line] + " ")
    detail = [line.strip() for line in lines[inner + 1 : inner + 5] if line.startswith(" ")]
    rest = " ".join([_short(match["rest"]) if match else "", *detail])
    return replace(exception, sentence=_cut(f"{rest}, in {file[1]}" if file else rest), line=inner)


def _known(lines: Sequence[str], first: int) -> FailureReason | None:
    for pattern, sentence in _CAUSES.items():
        for number in range(first, len(lines)):
            if match := re.search(pattern, lines[number]):
                named = match.groupdict()
                javas = {
                    name.removesuffix("_class"): str(int(version) - _CLASSES_OF_JAVA)
                    for name, version in named.items()
                    if name.endswith("_class")
                }
                return FailureReason(sentence=sentence.format(**named, **javas), line=number)
    return None


def _last_traceback(lines: Sequence[str]) -> int | None:
    """The line at which the last Python exception begins: its traceback, or the place of a syntax error, which has none."""
    for number in range(len(lines) - 1, -1, -1):
        if lines[number].startswith("Traceback (most recent call last):"):
            return number
        if re.match(r"(?:Syntax|Indentation|Tab)Error: ", lines[number]):
            return next((line for line in range(number, -1, -1) if _FRAME.match(lines[line])), number)
    return None


def _python_exception(lines: Sequence[str], start: int) -> FailureReason:
    place, number = "", start
    for number in range(start, len(lines)):
        if frame := _FRAME.match(lines[number]):
            if not _NOT_THE_JOBS.search(frame["file"]):
                place = f"{PurePosixPath(frame['file']).name} line {frame['line']}"
        elif number > start and not lines[number].startswith(" "):
            break
    line, sentence = _message(lines, number)
    return FailureReason(sentence=_cut(sentence), line=line, place=place)


def _message(lines: Sequence[str], number: int) -> tuple[int, str]:
    """Return the line of the message, and the message with the exception's short name; that of Java's own exception."""
    following = lines[number + 1] if number + 1 < len(lines) else ""
    if "Py4JJavaError" in lines[number] and (java := _JAVA.match(following)):
        return number + 1, _short(java["rest"])
    return number, _short(lines[number].strip()) if _EXCEPTION.match(lines[number]) else lines[number].strip()


def _java_exception(lines: Sequence[str]) -> FailureReason | None:
    for number, line in enumerate(lines):
        if line.startswith("Exception in thread") and (exception := _JAVA.match(line)):
            return FailureReason(sentence=_cut(_short(exception["rest"])), line=number)
    return None


def _last_line(lines: Sequence[str]) -> FailureReason | None:
    for number in range(len(lines) - 1, -1, -1):
        if lines[number] and not _NOISE.match(lines[number]):
            return FailureReason(sentence=_cut(lines[number]), line=number, guessed=True)
    return None


def _short(exception: str) -> str:
    """Shorten `java.lang.IllegalStateException: x` to `IllegalStateException: x`."""
    name, colon, message = exception.partition(":")
    return f"{name.rpartition('.')[2]}{colon}{message}"


def _cut(text: str) -> str:
    text = text.strip()
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]} …"
