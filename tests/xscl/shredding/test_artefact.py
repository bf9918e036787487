"""The patterns that one process leaves for others."""

from __future__ import annotations

from pathlib import Path

import pytest

from feeds.documents import Document
from xscl.ingestion.spark.spark_task import shred
from xscl.language.parser import parse_block
from xscl.shredding.automaton.nfa import Automaton
from xscl.shredding.remote.artefact import ArtefactDirectory, LoadedArtefact
from xscl.shredding.remote.current import CURRENT, current


def ask(automaton: Automaton, pair: int) -> None:
    block = parse_block("S/a")
    automaton.add(pair, block, block, valued=False)


def test_what_was_left_is_what_is_read(tmp_path: Path) -> None:
    automaton, artefacts, loaded = Automaton(), ArtefactDirectory(tmp_path), LoadedArtefact()
    for pair in (1, 2):
        ask(automaton, pair)
        artefacts.publish(automaton)
        assert current(tmp_path) == automaton.version
        read = loaded.of(tmp_path, automaton.version)
        assert read is not None
        assert list(read) == list(automaton)
        assert len(list(tmp_path.iterdir())) == 2  # these patterns, and which they are


def test_patterns_that_cannot_be_written_are_left_later(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    automaton, place = Automaton(), tmp_path / "patterns"
    ask(automaton, 1)
    artefacts = ArtefactDirectory(place)
    place.write_text("in the way")
    artefacts.publish(automaton)
    (told,) = caplog.messages
    assert told.startswith("the patterns for other processes cannot be written: ")
    place.unlink()
    artefacts.publish(automaton)
    before = current(place)
    assert before == automaton.version

    ask(automaton, 2)
    (place / f"{CURRENT}.tmp").mkdir()
    artefacts.publish(automaton)
    assert len(caplog.messages) == 2
    assert current(place) == before
    assert LoadedArtefact().of(place, before) is not None
    assert LoadedArtefact().of(place, automaton.version) is None
    (place / f"{CURRENT}.tmp").rmdir()
    artefacts.publish(automaton)
    assert current(place) == automaton.version
    assert len(list(place.iterdir())) == 2


def test_witnesses_without_room_are_left_to_the_engine(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    automaton = Automaton()
    ask(automaton, 1)
    ArtefactDirectory(tmp_path).publish(automaton)
    documents = [Document("S", "1", 1, b"<a/>")]
    there, gone = tmp_path / "1.witnesses", tmp_path / "gone" / "1.witnesses"
    assert shred(documents, tmp_path, automaton.version, there) == there
    assert shred(documents, tmp_path, automaton.version, gone) is None
    (told,) = caplog.messages
    assert told.startswith("the witnesses of a share cannot be written: ")


def test_what_is_in_the_place_of_a_directory_has_no_patterns(tmp_path: Path) -> None:
    (tmp_path / "patterns").write_text("in the way")
    assert current(tmp_path / "patterns") is None
