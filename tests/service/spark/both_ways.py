"""Reads each of many odd lines by `s3files`, for the most part by Arrow, and by Spark's own reader, and tells where they differ."""

from __future__ import annotations

import json
import random
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

from asset_job.sources.by_arrow import LINE, LineSchema, ReadByArrow


@dataclass(frozen=True)
class BothWays(ABC):
    """`columns` are those of a table, in Spark's DDL; with `corrupt` among them the reader puts there what does not fit."""

    spark: SparkSession
    columns: str
    corrupt: ClassVar[str] = "corrupt"

    @property
    def rows(self) -> LineSchema:
        schema = self.spark.createDataFrame([], self.columns).schema
        return LineSchema(schema=schema, corrupt=self.corrupt)

    @property
    def options(self) -> dict[str, str]:
        return {"columnNameOfCorruptRecord": self.corrupt}

    @abstractmethod
    def by_arrow(self) -> ReadByArrow | None: ...

    @abstractmethod
    def rows_of(self, mixed: DataFrame) -> DataFrame: ...

    @abstractmethod
    def spark_reader(self, java_reader: Any) -> Callable[[Any], Any]:
        """What of Spark's reader takes lines."""

    def reader(self) -> ReadByArrow:
        found = self.by_arrow()
        assert found is not None
        return found

    def read_by_arrow(self, lines: Sequence[str]) -> int:
        return sum(batch[LINE].null_count for line in lines for batch in self.reader().batches(line.encode()))

    def differing(self, lines: Sequence[str]) -> list[dict[str, Any]]:
        """The first of those that do, if any."""
        ours, theirs = self._ours(lines), self._theirs(lines)
        if ours == theirs:
            return []
        if len(lines) == 1:
            return [{"line": lines[0][:500], "s3files": ours, "spark": theirs}]
        middle = len(lines) // 2
        return self.differing(lines[:middle]) or self.differing(lines[middle:])

    def _ours(self, lines: Sequence[str]) -> list[str]:
        reader = self.reader()
        batches = [batch for line in lines for batch in reader.batches(line.encode())]
        if not batches:
            return []
        return self._shown(self.rows_of(self.spark.createDataFrame(pa.Table.from_batches(batches), self.rows.mixed)))

    def _theirs(self, lines: Sequence[str]) -> list[str]:
        texts = self.spark.createDataFrame([(line,) for line in lines], "value string")
        java = self.spark._jvm
        read = self.spark_reader(self.spark.read.schema(self.columns).options(**self.options)._jreader)
        return self._shown(
            DataFrame(read(getattr(texts._jdf, "as")(java.org.apache.spark.sql.Encoders.STRING())), self.spark)
        )

    def _shown(self, frame: DataFrame) -> list[str]:
        columns = [sql.col(f"`{name}`").cast("string") for name in self.rows.schema.names]
        return [repr(tuple(row)) for row in frame.select(*columns).collect()]


Case: TypeAlias = tuple[Callable[[SparkSession], BothWays], Callable[[random.Random], str]]
"""A table, and what draws a line for it."""


def main(cases: Sequence[Case]) -> None:
    """As a program: `SEED LINES`."""
    draw, count = random.Random(int(sys.argv[1])), int(sys.argv[2])
    conf = {"spark.ui.enabled": "false", "spark.sql.session.timeZone": "Asia/Tokyo"}
    spark = SparkSession.builder.master("local[1]").config(map=conf).getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    found: dict[str, Any] = {"read by Arrow": 0, "differing": []}
    for table, a_line in cases:
        ways, lines = table(spark), [a_line(draw) for _ in range(count // len(cases))]
        found["read by Arrow"] += ways.read_by_arrow(lines)
        found["differing"] += ways.differing(lines)
    json.dump(found, sys.stdout)
    spark.stop()
