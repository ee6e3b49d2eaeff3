"""The logs are those of real Spark 4.3 jobs, without most lines of their stack traces."""

from __future__ import annotations

from pathlib import Path

import pytest

from watcher.submit.failure_reasons import explain_log

LOGS = Path(__file__).parent / "recorded_logs"
NO_MASTER = (
    "Spark knows no such master: correct the job's spark.master (local[*], spark://host:7077, yarn, k8s://https://host)"
)
OUT_OF_MEMORY = (
    "the driver ran out of memory (Java heap space): raise the job's driver_memory, or collect less data in the driver"
)
CASES = [
    ("analysis", "AnalysisException: [UNRESOLVED_COLUMN.WITH_SUGGESTION] A column,", "analysis.py line 3"),
    ("bad_conf2", "SparkException: Executor memory must be a positive number", ""),
    ("bind", "the driver could not open a port for sparkDriver: correct", ""),
    (
        "csv_header",
        "SparkIllegalArgumentException: CSV header does not conform to the schema. Header: a, b",
        "csv_header.py line 5",
    ),
    ("chained", "RuntimeError: could not look", "chained.py line 6"),
    ("huge_heap", "this machine cannot give the driver its heap: lower the job's driver_memory", ""),
    ("java_throw", 'NumberFormatException: For input string: "x"', "java_throw.py line 3"),
    ("k8s", "KubernetesClientException: An error has occurred.", "k8s.py line 2"),
    ("local_bad", NO_MASTER, ""),
    ("malformed_master", NO_MASTER, ""),
    ("missing_path", "AnalysisException: [PATH_NOT_FOUND] Path does not exist", "missing_path.py line 3"),
    ("module", "ModuleNotFoundError: No module named 'nowhere_to_be_found'", "module.py line 1"),
    ("no_py_worker", "AttributeError: 'int' object has no attribute 'nope'", "no_py_worker.py line 3"),
    ("oom", OUT_OF_MEMORY, ""),
    ("oom2", OUT_OF_MEMORY, ""),
    ("oom3", OUT_OF_MEMORY, ""),
    ("oom_udf", "a Python worker died in the middle of a task; unless a person killed it, it ran out of memory", ""),
    ("package", "the package no.such.group:nothing:1.0 could not be fetched: correct the job's spark.packages", ""),
    ("plain_value_error", "ValueError: no column amount in orders.csv", "plain_value_error.py line 2"),
    ("refused_master", "no Spark master answers at the job's spark.master: start it, or correct the address", ""),
    ("s3a_jar", "s3a:// addresses need Hadoop's S3 connector", ""),
    ("small_heap", "the driver's heap is too small for Spark: raise the job's driver_memory", ""),
    ("syntax", "SyntaxError: invalid syntax", "syntax.py line 1"),
    ("udf", "ZeroDivisionError: integer division or modulo by zero", "udf.py line 5"),
    ("unreadable", "FileUnreadable: s3://landing/broken/a.json.gz cannot be read: Truncated compressed stream", ""),
    ("yarn", "the master yarn needs HADOOP_CONF_DIR or YARN_CONF_DIR", ""),
]


@pytest.mark.parametrize(("name", "sentence", "place"), CASES)
def test_a_recorded_log_is_explained(name: str, sentence: str, place: str) -> None:
    text = (LOGS / f"{name}.txt").read_text()
    found = explain_log(text)
    assert found is not None
    assert found.sentence.startswith(sentence)
    assert (found.place, found.guessed) == (place, False)
    if place:  # it is the line of the exception itself
        assert sentence.split(":", maxsplit=1)[0] in text.split("\n")[found.line]


def test_every_recorded_log_is_in_the_table() -> None:
    assert {log.stem for log in LOGS.iterdir()} == {name for name, *_ in CASES} | {"exit3", "exit_text"}


def test_the_last_line_of_a_log_is_only_a_guess() -> None:
    found = explain_log((LOGS / "exit_text.txt").read_text())
    assert found is not None
    assert (found.sentence, found.line, found.guessed) == ("the lake is empty", 1, True)


@pytest.mark.parametrize("text", ["", "\n", "WARNING: Using incubator modules: jdk.incubator.vector\n"])
def test_an_empty_log_explains_nothing(text: str) -> None:
    assert explain_log(text) is None


@pytest.mark.parametrize(
    ("text", "sentence", "line"),
    [
        ("Traceback (most recent call last):", "Traceback (most recent call last):", 0),
        ('Traceback (most recent call last):\n  File "a.py", line 1, in f', 'File "a.py", line 1, in f', 1),
        ('x\nTraceback (most recent call last):\n  File "/a.py", line 1, in f\nmine.Odd\n', "Odd", 3),
        ("Traceback (most recent call last):\r\n  f\r\nKeyError: 'x'\r\n", "KeyError: 'x'", 2),
        ("No space left on device\nTraceback (most recent call last):\n  f\nKeyError: 'x'", "KeyError: 'x'", 3),
        ("a\u2028b\x0c\n{}\nlast", "last", 2),
        (
            'Exception in thread "main" org.a.B: cannot find db.example.com\n\tat x.y(Z.java:1)',
            "B: cannot find db.example.com",
            0,
        ),
        ('Exception in thread "the "odd" one" java.lang.Error', "Error", 0),
        ("x" * 1000, "x" * 400 + " …", 0),
    ],
)
def test_odd_logs(text: str, sentence: str, line: int) -> None:
    found = explain_log(text)
    assert found is not None
    assert (found.sentence, found.line) == (sentence, line)


def test_a_jvm_that_is_gone_is_reported() -> None:
    text = """\
Traceback (most recent call last):
  File "/jobs/load.py", line 4, in <module>
ConnectionRefusedError: [Errno 111] Connection refused
"""
    killed = explain_log(text)
    assert killed is not None
    assert killed.sentence.startswith("the driver's JVM ended before its program: it was killed or it crashed")
    assert killed.place == "load.py line 4"


CRASH = """\
26/11/28 10:00:00 INFO SparkContext: Running Spark
#
# A fatal error has been detected by the Java Runtime Environment:
#
#  SIGSEGV (0xb) at pc=0x00007f0c1c2a3b4c, pid=4711, tid=4712
#
# JRE version: OpenJDK Runtime Environment (17.0.13+11) (build 17.0.13+11-Debian-2deb12u1)
# Problematic frame:
# C  [libsnappyjava.so+0x1b4c]  snappy_uncompress+0x1c
#
# No core dump will be written. Core dumps have been disabled.
#
# An error report file with more information is saved as:
# /home/watcher/tries/1/hs_err_pid4711.log
#
Traceback (most recent call last):
  File "/jobs/load.py", line 4, in <module>
py4j.protocol.Py4JNetworkError: Answer from Java side is empty
"""
NO_MEMORY_FOR_JAVA = """\
#
# There is insufficient memory for the Java Runtime Environment to continue.
# Native memory allocation (mmap) failed to map 16384 bytes for committing reserved memory.
# An error report file with more information is saved as:
# //hs_err_pid7.log
"""
OLD_JAVA = """\
Error: A JNI error has occurred, please check your installation and try again
Exception in thread "main" java.lang.UnsupportedClassVersionError: org/apache/spark/launcher/Main has been compiled by a more recent \
version of the Java Runtime (class file version 61.0), this version of the Java Runtime only recognizes class file versions up to {found}
\tat java.lang.ClassLoader.defineClass1(Native Method)
"""


@pytest.mark.parametrize(
    ("text", "parts", "line"),
    [
        (
            CRASH,
            ("JVM crashed by SIGSEGV in C  [libsnappyjava.so+0x1b4c]", "read /home/watcher/tries/1/hs_err_pid4711.log"),
            2,
        ),
        (CRASH[: CRASH.index("#  SIG")], ("JVM crashed: read the file hs_err_pid….log in the job's folder",), 2),
        (NO_MEMORY_FOR_JAVA, ("got no more memory", "raise the memory of the machine", "read //hs_err_pid7.log"), 1),
        (OLD_JAVA.format(found="52.0"), ("Java 8 is too old for the driver: install Java 17 or newer", "JAVA_HOME"), 1),
        (
            OLD_JAVA.format(found="55.0"),
            ("Java 11 is too old for the driver: install Java 17 or newer", "JAVA_HOME"),
            1,
        ),
        (OLD_JAVA.replace("61.0", "65.0").format(found="61.0"), ("Java 17 is too old", "install Java 21 or newer"), 1),
        ("java.lang.UnsupportedClassVersionError: a/B : bad major version", ("too old: install Java 17 or newer",), 0),
        ("Unrecognized option: --add-opens=java.base/java.lang=ALL-UNNAMED", ("too old: install Java 17 or newer",), 0),
        (
            "Traceback (most recent call last):\n  f\nModuleNotFoundError: No module named 'pyarrow'\n",
            ("pyarrow is missing in the job's Python", "`python -m pip install pyarrow`"),
            2,
        ),
        (
            "Traceback (most recent call last):\n  f\nPySparkImportError: [PACKAGE_NOT_INSTALLED] PyArrow >= 15.0.0 must be installed; how",
            ("PyArrow 15.0.0 or newer is missing in the job's Python", "`python -m pip install PyArrow`"),
            2,
        ),
        ("a\nKilled\n", ("the driver was killed; unless a person did that, the machine is out of memory: raise",), 1),
        (
            '/spark/bin/spark-class: line 97:  4711 Killed                  "${CMD[@]}"\n',
            ("the driver was killed; unless a person did that, the machine is out of memory: raise",),
            0,
        ),
        ("Traceback (most recent call last):\n  f\nMemoryError\n", ("the driver's Python ran out of memory",), 2),
        (
            "Traceback (most recent call last):\n  f\nnumpy._core._exceptions._ArrayMemoryError: Unable to allocate 9 GiB\n",
            ("the driver's Python ran out of memory",),
            2,
        ),
    ],
)
def test_a_driver_that_the_system_or_its_java_ended_is_explained(text: str, parts: tuple[str, ...], line: int) -> None:
    found = explain_log(text)
    assert found is not None
    assert [part for part in parts if part not in found.sentence] == []
    assert (found.line, found.guessed) == (line, False)


@pytest.mark.parametrize(
    "text", ["the worker was Killed by hand", "# A fatal error in row 5", "Killed 3 stale sessions"]
)
def test_a_line_of_the_job_that_only_sounds_so_is_its_last_line(text: str) -> None:
    found = explain_log(text)
    assert found is not None
    assert (found.sentence, found.guessed) == (text, True)
