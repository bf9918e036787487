"""The source of a job as a streaming DataFrame of documents."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

from xscl.ingestion.pipeline import PipelineError
from xscl.spark.error_report import reason_of

KAFKA = "org.apache.spark:spark-sql-kafka-0-10_2.13"
_JSON = "stream STRING, id STRING, ts TIMESTAMP, xml STRING"
_ORDERED = ", number BIGINT, clock TIMESTAMP"


@dataclass(frozen=True, slots=True)
class JobSource:
    """Documents that come in files of a directory (`parquet`, `json`), or from Kafka.

    The place is the directory, or SERVERS/TOPICS.  `options` are of Spark's source.
    """

    form: str
    place: str
    options: Mapping[str, str] = field(default_factory=dict)

    @property
    def directory(self) -> str | None:
        """The directory of the files, None of Kafka."""
        return None if self.form == "kafka" else self.place

    def documents(self, session: SparkSession, order: str) -> DataFrame:
        """Return the documents; with the `order` "number" also their numbers and clocks.

        Raises PipelineError if nothing says what columns there are, or if Spark cannot read Kafka.
        """
        reader = session.readStream.options(**self.options)
        if self.form == "json":
            return reader.schema(_JSON + _ORDERED if order == "number" else _JSON).json(self.place)
        if self.form == "parquet":
            try:
                found = session.read.parquet(self.place)
            except AnalysisException as error:
                raise PipelineError(
                    f"the columns of {self.place} are unknown: {reason_of(error)}",
                    hint="the first Parquet file must be there when the job starts",
                ) from error
            return reader.schema(found.schema).parquet(self.place)
        servers, _, topics = self.place.rpartition("/")
        kafka = reader.format("kafka").option("kafka.bootstrap.servers", servers)
        try:
            return kafka_documents(kafka.option("subscribe", topics).load())
        except AnalysisException as error:
            raise PipelineError(
                f"Kafka cannot be read: {reason_of(error)}",
                hint=f"--conf spark.jars.packages={KAFKA}:{session.version}",
            ) from error


def kafka_documents(records: DataFrame) -> DataFrame:
    """Return the records of Kafka as documents: of topic, key, time and value."""
    return records.selectExpr(
        "topic AS stream", "CAST(key AS STRING) AS id", "timestamp AS ts", "value AS xml"
    )
