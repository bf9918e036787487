"""Directories on any file system of Spark: a path, or an address such as hdfs://host/path."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession


def exists(session: SparkSession, place: str) -> bool:
    """Return True if there is a file or a directory."""
    path, system = _opened(session, place)
    return bool(system.exists(path))


def make_directory(session: SparkSession, place: str) -> None:
    """Make a directory with its parents, if it is not there."""
    path, system = _opened(session, place)
    system.mkdirs(path)


def local_path(session: SparkSession, place: str) -> Path | None:
    """Return the path of a place among the files of a machine, None if it is elsewhere."""
    path, system = _opened(session, place)
    where = system.makeQualified(path).toUri()
    return Path(where.getPath()) if where.getScheme() == "file" else None


def qualified(session: SparkSession, place: str) -> str:
    """Return the full address of a place, by which it is known however it was written."""
    path, system = _opened(session, place)
    return str(system.makeQualified(path))


def _opened(session: SparkSession, place: str) -> tuple[Any, Any]:
    """Return a path of Hadoop and its file system."""
    assert session._jvm is not None, "the session is not one of Spark Connect"
    path = session._jvm.org.apache.hadoop.fs.Path(place)
    return path, path.getFileSystem(session._jsc.hadoopConfiguration())
