"""A data directory, and a backup that was made of it."""

from __future__ import annotations

import shutil
from contextlib import closing
from pathlib import Path

import pytest

from tests.xscl.store.backups import append, consume, subscribed
from xscl.engine.backup import back_up
from xscl.ingestion.data_directory import DataDirectory


@pytest.fixture(scope="session")
def backed_up(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a data directory that has consumed two of four segments, and its backup."""
    place = tmp_path_factory.mktemp("backed up")
    home = DataDirectory(place / "data")
    home.create()
    with subscribed(home.database) as engine:
        append(home, 0, 1)
        consume(engine, home)
        append(home, 2, 3)
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
