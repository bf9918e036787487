"""The benchmark of joins on executors finds on Spark what one engine finds."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from benchmarks.spark import Point, Side, measured, processor_seconds

SIDES = (Side("batch", 2, 300), Side("stream", 3, 200))


@pytest.mark.slow
@pytest.mark.parametrize(("name", "subscriptions"), [("b", 100), ("nested", 8)])
def test_joins_through_spark_are_those_of_an_engine(
    spark_session: SparkSession, tmp_path: Path, name: str, subscriptions: int
) -> None:
    point = Point(name, 600, subscriptions, SIDES, 1)
    rows = list(measured(spark_session, tmp_path, point))
    assert [(row.parameters["mode"], row.parameters["buckets"]) for row in rows] == [
        ("batch", 2),
        ("stream", 3),
    ]
    for row in rows:
        assert (row.figures["missing"], row.figures["extra"]) == (0, 0)
        assert int(str(row.figures["matches"])) > 0


def test_processor_time_is_that_of_this_process_at_least() -> None:
    before = processor_seconds()
    while processor_seconds() == before:
        sum(range(10_000))
