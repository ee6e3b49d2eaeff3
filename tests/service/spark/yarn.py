"""A real YARN on loopback, from Maven's jars: a resource manager and a node manager in one JVM, as in Hadoop's minicluster."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

import pytest
from py4j.java_gateway import GatewayParameters, JavaGateway, find_jar_path

from tests.service.spark.cluster import wait_until
from watcher.shared.servers import free_port
from watcher.submit.spark.command import SMALL
from watcher.submit.spark.runtime import spark_home_of

PACKAGES = tuple(
    f"org.apache.hadoop:hadoop-yarn-server-{name}:3.4.2"  # of the Hadoop that Spark brings
    for name in ("resourcemanager", "nodemanager", "timelineservice")
)
"""Not the minicluster's own jar: what is shaded in it answers REST in other shapes than a cluster does."""
PRINT_JARS = """
from pyspark import SparkContext
SparkContext._ensure_initialized()
print("JARS", SparkContext._jvm.System.getProperty("spark.jars"))
"""
FIFO = "org.apache.hadoop.yarn.server.resourcemanager.scheduler.fifo.FifoScheduler"
LOG4J = """
log4j.rootLogger=WARN, console
log4j.appender.console=org.apache.log4j.ConsoleAppender
log4j.appender.console.target=System.err
log4j.appender.console.layout=org.apache.log4j.PatternLayout
log4j.appender.console.layout.ConversionPattern=%d %p %c{1}: %m%n
"""
ALIVE = {"NEW", "NEW_SAVING", "SUBMITTED", "ACCEPTED", "RUNNING"}


@dataclass(frozen=True)
class Yarn:
    conf_dir: Path
    web: str

    def applications(self, tag: str = "") -> list[dict[str, Any]]:
        with urllib.request.urlopen(f"{self.web}/ws/v1/cluster/apps?applicationTags={tag}", timeout=30) as answer:  # noqa: S310
            apps = json.load(answer)["apps"]
        return list((apps or {}).get("app", []))

    def is_idle(self) -> bool:
        return not any(application["state"] in ALIVE for application in self.applications())


@contextmanager
def running_yarn(folder: Path) -> Iterator[Yarn]:
    """Ends with the block, with everything that runs in it. Skips the test where Maven is not reachable."""
    jars = fetched(folder)
    conf_dir, web, node_web = write_site(folder)
    class_path = os.pathsep.join([find_jar_path(), str(conf_dir), *jars])
    options = ["-Xmx200m", *SMALL, "--add-opens=java.base/java.lang=ALL-UNNAMED", f"-Dyarn.log.dir={folder}"]
    words = [
        "java",
        "-classpath",
        class_path,
        *options,
        "py4j.GatewayServer",
        "--die-on-broken-pipe",
        "--enable-auth",
        "0",
    ]
    with (
        (folder / "yarn.log").open("wb") as log,
        ThreadPoolExecutor() as threads,
        subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True) as process,
    ):
        assert process.stdout is not None
        port, token = int(process.stdout.readline()), process.stdout.readline().strip()
        gateway = JavaGateway(gateway_parameters=GatewayParameters(port=port, auth_token=token))
        try:
            servers = gateway.jvm.org.apache.hadoop.yarn.server
            conf = gateway.jvm.org.apache.hadoop.yarn.conf.YarnConfiguration()
            node = servers.nodemanager.NodeManager()
            node.init(conf)
            # The last one to start is who answers on all web ports of a JVM (Guice), and that has to be the other one.
            started = threads.submit(node.start)
            wait_until(lambda: answers(node_web) or started.done())
            manager = servers.resourcemanager.ResourceManager()
            manager.init(conf)
            manager.start()
            started.result()
            yield Yarn(conf_dir, f"http://127.0.0.1:{web}")
        finally:
            gateway.close()
            process.kill()


def fetched(folder: Path) -> Sequence[str]:
    """Spark fetches the jars and tells which they are; into a cache of their own: Ivy's is not for two at a time."""
    ivy = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "asset-watcher" / "ivy-of-yarn"
    program = folder / "jars.py"
    program.write_text(PRINT_JARS)
    spark_home = spark_home_of(sys.executable)
    conf = ["--conf", f"spark.jars.ivy={ivy}", "--packages", ",".join(PACKAGES)]
    words = [f"{spark_home}/bin/spark-submit", "--master", "local[1]", *conf, str(program)]
    environment = {**os.environ, "SPARK_HOME": str(spark_home), "PYSPARK_PYTHON": sys.executable}
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
    if "unresolved dependenc" in done.stderr or "UnknownHostException" in done.stderr:
        pytest.skip("Maven is not reachable from here")
    line = re.search(r"^JARS (.*)$", done.stdout, re.MULTILINE)
    assert line is not None, done.stdout + done.stderr
    return [jar.removeprefix("file://") for jar in line[1].split(",")]


def write_site(folder: Path) -> tuple[Path, int, int]:
    """The folder of the configuration, and the ports of both web servers."""
    web, node_web = free_port(), free_port()
    manager = {
        name: f"127.0.0.1:{free_port()}"
        for name in ("address", "scheduler.address", "resource-tracker.address", "admin.address")
    }
    node = {"address": "127.0.0.1:0", "localizer.address": "127.0.0.1:0", "webapp.address": f"127.0.0.1:{node_web}"}
    properties = {
        "hadoop.tmp.dir": str(folder / "tmp"),
        "yarn.resourcemanager.scheduler.class": FIFO,
        "yarn.resourcemanager.webapp.address": f"127.0.0.1:{web}",
        "yarn.resourcemanager.connect.retry-interval.ms": "200",
        "yarn.resourcemanager.nodemanagers.heartbeat-interval-ms": "200",
        "yarn.scheduler.minimum-allocation-mb": "128",
        "yarn.nodemanager.resource.memory-mb": "3000",
        "yarn.nodemanager.resource.cpu-vcores": "8",
        "yarn.nodemanager.local-dirs": str(folder / "local"),
        "yarn.nodemanager.log-dirs": str(folder / "logs"),
        "yarn.nodemanager.delete.debug-delay-sec": "0",
        "yarn.nodemanager.disk-health-checker.max-disk-utilization-per-disk-percentage": "100",
        "yarn.nodemanager.disk-health-checker.min-free-space-per-disk-mb": "0",
        "yarn.nodemanager.pmem-check-enabled": "false",
        "yarn.nodemanager.vmem-check-enabled": "false",
        **{f"yarn.resourcemanager.{name}": value for name, value in manager.items()},
        **{f"yarn.nodemanager.{name}": value for name, value in node.items()},
    }
    lines = (
        f"<property><name>{name}</name><value>{escape(value)}</value></property>" for name, value in properties.items()
    )
    conf_dir = folder / "conf"
    conf_dir.mkdir()
    (conf_dir / "log4j.properties").write_text(LOG4J)
    (conf_dir / "yarn-site.xml").write_text(f"<configuration>{''.join(lines)}</configuration>")
    return conf_dir, web, node_web


def answers(port: int) -> bool:
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
        return True
    return False
