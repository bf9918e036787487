"""A task of Spark: stage 1 over a share of a micro-batch.

It is separate from the source (`xscl.ingestion.spark.spark_source`), because Spark starts three
processes for each query that plan and never shred.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from feeds.documents import Document
from xscl.shredding.remote.artefact import LoadedArtefact
from xscl.shredding.remote.remote_bindings import compute_bindings, texts_of, write_bindings

_log = logging.getLogger(__name__)

_loaded = LoadedArtefact()
"""Spark's Python processes do one task after the other."""


def shred(documents: Iterable[Document], directory: Path, version: str, path: Path) -> Path | None:
    """Write the witnesses of documents to `path` and return it.

    Returns None if the automaton of this version was replaced, or there is no room for the
    witnesses; then the engine shreds these documents itself.
    """
    automaton = _loaded.of(directory, version)
    if automaton is None:
        return None
    try:
        write_bindings(path, compute_bindings(automaton, version, texts_of(documents)))
    except OSError as error:
        _log.warning("the witnesses of a share cannot be written: %s", error)
        with suppress(OSError):
            path.unlink()
        return None
    return path
