"""A data directory, and a backup that was made of it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from feeds.spool import Spool
from tests.xscl.store.backups import batch, subscribed
from xscl.engine.backup import back_up
from xscl.ingestion.data_directory import DataDirectory
from xscl.ingestion.pipeline import Consumer
from xscl.store.store import Store


@pytest.fixture
def store() -> Iterator[Store]:
    """An empty store in memory."""
    with closing(Store(None)) as made:
        yield made


@pytest.fixture(scope="session")
def backed_up(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a data directory that has consumed two of four segments, and its backup."""
    place = tmp_path_factory.mktemp("backed up")
    home = DataDirectory(place / "data")
    home.create()
    with subscribed(home.database) as engine, Spool(home.spool) as spool:
        for number in range(2):
            spool.append(batch(number), number)
        Consumer(spool, engine.ingest).run_once()
        for number in range(2, 4):
            spool.append(batch(number), number)
        with closing(engine.connect()) as store:
            made = back_up(store, place / "backup.tar", home.spool)
    assert [Path(name).stem for name in made.segments] == [f"{3:012d}"]
    assert made.position == 2
    return place


@pytest.fixture
def backup(home: DataDirectory, backed_up: Path) -> Path:
    """A backup of the data directory `home`, which lies beside it."""
    shutil.copytree(backed_up, home.path.parent, dirs_exist_ok=True)
    return home.path.parent / "backup.tar"
