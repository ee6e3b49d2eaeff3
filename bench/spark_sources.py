"""Compares the throughput of `r.read` with that of the simplest way to the same bytes and rows, in one run on one machine.

Files come from a process that serves them from memory as S3 would, each answer after `--latency` milliseconds (S3's own are
some tens); rows from a PostgreSQL of its own. Spark's JVM is that of a job's profile, has two tasks at a time and throws away
what it reads (`noop`). `--maven` adds s3a and JDBC, whose jars Spark fetches from Maven; files are then read in turns, and the
median of three counts. The target for JSON and CSV: as fast as s3a with one file, twice as fast with hundreds. CSV with line
breaks is compared with s3a's `multiLine`. At the end stands the largest memory of a Python process that read.

    python bench/spark_sources.py [--megabytes 256] [--rows 2000000] [--maven] [--profile large] [--files 256 --latency 20]
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from statistics import median
from typing import Any

SDK = Path(__file__).parents[1] / "sdk"
TURNS = 3
MANY = 100
"""The files from which on the target is twice the speed."""
PARQUET_ROW = 56
ORDER = '{"id": %d, "customer": %d, "amount": %d.25, "day": "2026-11-20", "note": "as ordered by telephone"}\n'
LINE = '%d,%d,%d.25,2026-11-20,"as ordered by telephone"\n'
BREAKS = '%d,%d,%d.25,2026-11-20,"as ""ordered""\nby telephone"\n'
SCHEMA = "id long, customer long, amount double, day date, note string"
PARQUET_SCHEMA = "id long, customer long, amount double, note string"
TABLE = """
CREATE TABLE orders AS SELECT n::bigint AS id, n * 7 % 1000 AS customer, n * 0.25::float8 AS amount, now() AS at,
       md5(n::text) AS note FROM generate_series(1, {rows}) n;
ALTER TABLE orders ADD PRIMARY KEY (id); ANALYZE orders
"""
MAVEN = "org.apache.hadoop:hadoop-aws:3.4.2,org.postgresql:postgresql:42.7.7"


def content(line: str, size: int) -> bytes:
    lines = [line % (number, number % 1000, number) for number in range(10_000)]
    block = "".join(lines).encode()
    return block * max(1, size // len(block))


def parquet_content(size: int) -> bytes:
    """Return Parquet of values that do not repeat, so that compression does not change its size much."""
    import pyarrow as pa
    from pyarrow import parquet

    count = max(1, size // PARQUET_ROW)
    numbers = range(count)
    columns = {
        "id": pa.array(numbers, pa.int64()),
        "customer": pa.array((number * 7919 % 1_000_003 for number in numbers), pa.int64()),
        "amount": pa.array((number * 0.37 for number in numbers), pa.float64()),
        "note": pa.array((os.urandom(16).hex() for _ in numbers), pa.string()),
    }
    sink = pa.BufferOutputStream()
    parquet.write_table(pa.table(columns), sink)
    return bytes(sink.getvalue())


def serve(port: Any, size: int, latency: float) -> None:
    bodies = {
        ".json": content(ORDER, size),
        ".csv": content(LINE, size),
        ".breaks.csv": content(BREAKS, size),
        ".parquet": parquet_content(size),
    }

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_HEAD(self) -> None:
            self._answer(with_body=False)

        def do_GET(self) -> None:
            self._answer(with_body=True)

        def _answer(self, *, with_body: bool) -> None:
            time.sleep(latency)
            body = bodies.get("".join(Path(self.path.partition("?")[0]).suffixes))
            if body is None:  # s3a looks for folders
                body = b"<ListBucketResult><KeyCount>0</KeyCount><IsTruncated>false</IsTruncated></ListBucketResult>"
            byte_range = self.headers.get("Range")
            first, last = 0, len(body) - 1
            if byte_range:
                low, _, high = byte_range.removeprefix("bytes=").partition("-")
                first, last = int(low), min(int(high or last), last)
            self.send_response(206 if byte_range else 200)
            if byte_range:
                self.send_header("Content-Range", f"bytes {first}-{last}/{len(body)}")
            self.send_header("Content-Length", str(last - first + 1))
            self.send_header("ETag", '"1"')
            self.send_header("Last-Modified", "Fri, 20 Nov 2026 09:00:00 GMT")
            self.end_headers()
            if with_body:
                self.wfile.write(memoryview(body)[first : last + 1])

        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        port.send((server.server_address[1], {ending: len(body) for ending, body in bodies.items()}))
        server.serve_forever()


@contextmanager
def file_server(size: int, latency: float) -> Iterator[tuple[str, dict[str, int]]]:
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.Process(target=serve, args=(theirs, size, latency), daemon=True)
    process.start()
    port, sizes = ours.recv()
    try:
        yield f"http://127.0.0.1:{port}", sizes
    finally:
        process.kill()
        process.join()


def measured(name: str, amount: float, unit: str, work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    seconds = time.perf_counter() - began
    print(f"{name:<42} {seconds:8.2f} s {amount / seconds:14,.1f} {unit}/s", flush=True)
    return seconds


def in_turns(
    ending: str, megabytes: float, bar: float | None, ours: Callable[[], object], theirs: Callable[[], object]
) -> None:
    """`r.read` and s3a, and how many times as fast the first is."""
    theirs()  # loads its classes, as earlier code has loaded ours
    pairs = [
        (
            measured(f"r.read, {ending}", megabytes, "MB", ours),
            measured(f"s3a, {ending}", megabytes, "MB", theirs),
        )
        for _ in range(TURNS)
    ]
    mine, other = (median(times) for times in zip(*pairs, strict=True))
    judged = "" if bar is None else f"; bar {bar:.1f}: {'met' if other / mine >= bar else 'MISSED'}"
    print(f"  r.read is {other / mine:.2f} times as fast as s3a{judged}")


def noop(frame: Any) -> None:
    frame.write.format("noop").mode("overwrite").save()


def bench_files(  # noqa: C901 - one case after another
    spark: Any, endpoint: str, sizes: dict[str, int], number: int, *, maven: bool
) -> None:
    import obstore

    from asset_job.sources.readers import file_frames
    from asset_job.sources.request import ReadRequest, S3File
    from asset_job.sources.s3_objects import s3_access

    connection = {"type": "s3", "endpoint_url": endpoint, "region": "r", "access_key_id": "a", "secret_access_key": "b"}

    def files(ending: str) -> list[S3File]:
        return [S3File(bucket="lake", key=f"in/{at}{ending}", size=sizes[ending], etag="1") for at in range(number)]

    def read(ending: str, count: int = number, **more: Any) -> None:
        request = ReadRequest(spark=spark, connections={"lake": connection}, **more)
        noop(file_frames(request, files(ending)[:count]).frame())

    def download() -> None:
        store = s3_access(connection).store("lake")
        for file in files(".json"):
            for _ in obstore.get(store, file.key).stream(min_chunk_size=4 << 20):
                pass

    def megabytes(ending: str) -> float:
        return number * sizes[ending] / (1 << 20)

    read(".json", 1, schema=SCHEMA)  # the first read of a job starts Python
    measured("plain download, one after the other", megabytes(".json"), "MB", download)
    measured("r.read, lines", megabytes(".json"), "MB", lambda: read(".json", format="text"))
    plain: dict[str, bool] = {}
    headless = {"header": False}
    cases = [(".json", SCHEMA, plain), (".csv", SCHEMA, headless), (".breaks.csv", SCHEMA, headless)]
    for ending, schema, options in [*cases, (".parquet", PARQUET_SCHEMA, plain)]:
        kind = ending.rpartition(".")[2]
        theirs = {**options, "multiLine": True} if "breaks" in ending else options
        by_spark = spark.read.schema(schema).format(kind).options(**theirs)
        paths = [f"s3a://lake/{file.key}" for file in files(ending)]
        bar = None if kind == "parquet" else 2.0 if number >= MANY else 1.0

        def ours(ending: str = ending, schema: str = schema, options: dict[str, Any] = options) -> None:
            read(ending, schema=schema, options=options)

        def others(by_spark: Any = by_spark, paths: list[str] = paths) -> None:
            noop(by_spark.load(paths))

        if maven:
            in_turns(ending, megabytes(ending), bar, ours, others)
        else:
            measured(f"r.read, {ending}", megabytes(ending), "MB", ours)
    print(f"the largest Python process that read had {largest_reader()} MB")


def largest_reader() -> int:
    """The most memory that a Python process of Spark's has had, in megabytes."""
    most = [
        int(line.split()[1]) // 1024
        for status in Path("/proc").glob("[0-9]*/status")
        if b"pyspark.daemon" in (status.parent / "cmdline").read_bytes()
        for line in status.read_text().splitlines()
        if line.startswith("VmHWM:")
    ]
    return max(most, default=0)


def bench_rows(spark: Any, dsn: str, count_of_rows: int, *, maven: bool) -> None:
    import psycopg
    from adbc_driver_postgresql import dbapi

    from asset_job.sources.pgrows import rows_by_adbc
    from asset_job.sources.request import ReadRequest, RowSelection
    from asset_job.sources.row_frames import rows_by_jdbc

    with psycopg.connect(dsn) as connection:
        connection.execute(TABLE.format(rows=count_of_rows))
    half = [(first, first + 999) for first in range(1, count_of_rows, 2000)]
    count = sum(high - low + 1 for low, high in half)

    def adbc() -> None:
        with dbapi.connect(dsn) as connection, connection.cursor() as cursor:
            cursor.execute(f"SELECT * FROM orders WHERE id <= {count}")
            for _ in cursor.fetch_record_batch():
                pass

    def copy() -> None:
        statement = f"COPY (SELECT * FROM orders WHERE id <= {count}) TO STDOUT (FORMAT BINARY)"
        with psycopg.connect(dsn) as connection, connection.cursor() as cursor, cursor.copy(statement) as blocks:
            for _ in blocks:
                pass

    request, rows = ReadRequest(spark=spark), RowSelection(table="public.orders", column="id", ranges=tuple(half))
    noop(rows_by_adbc(request, RowSelection(table="public.orders", column="id", ranges=((1, 10),)), dsn))
    measured("plain ADBC, one range", count, "rows", adbc)
    measured("psycopg COPY, one range, bytes only", count, "rows", copy)
    measured(f"pgrows, {len(half)} ranges", count, "rows", lambda: noop(rows_by_adbc(request, rows, dsn)))
    if maven:
        measured(f"JDBC, {len(half)} ranges", count, "rows", lambda: noop(rows_by_jdbc(request, rows, dsn)))


def main() -> None:
    words = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    words.add_argument("--megabytes", type=int, default=256)
    words.add_argument("--files", type=int, default=8, help="that they are in")
    words.add_argument("--rows", type=int, default=2_000_000)
    words.add_argument("--maven", action="store_true")
    words.add_argument("--profile", choices=["small", "large"], default="small", help="a job's is small")
    words.add_argument("--latency", type=float, default=0.0, help="milliseconds before each answer of S3")
    options = words.parse_args()
    os.environ |= {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    os.environ["PYTHONPATH"] = os.pathsep.join([str(SDK), os.environ.get("PYTHONPATH", "")])
    sys.path.insert(0, str(SDK))
    from pyspark.sql import SparkSession

    from watcher.shared.servers import running_postgres
    from watcher.submit.spark.command import SMALL

    files = file_server(options.megabytes * (1 << 20) // options.files, options.latency / 1000)
    with files as (endpoint, sizes), running_postgres() as dsn:
        conf: dict[str, bool | float | int | str | None] = {
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.driver.memory": "1g",
        }
        if options.profile == "small":
            conf["spark.driver.extraJavaOptions"] = " ".join(SMALL)
        s3a = {"endpoint": endpoint, "access.key": "a", "secret.key": "b", "path.style.access": "true"}
        if options.maven:
            conf["spark.jars.packages"] = MAVEN
            conf |= {f"spark.hadoop.fs.s3a.{name}": value for name, value in s3a.items()}
        spark = SparkSession.builder.master("local[2]").config(map=conf).getOrCreate()
        spark.sparkContext.setLogLevel("ERROR")
        bench_files(spark, endpoint, sizes, options.files, maven=options.maven)
        bench_rows(spark, dsn, options.rows, maven=options.maven)
        spark.stop()


if __name__ == "__main__":
    main()
