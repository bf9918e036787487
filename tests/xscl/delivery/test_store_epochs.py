"""Generations: what a position means after a store was put back."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from xscl.delivery.store_epochs import begin_epoch, epochs_of
from xscl.engine.facade import Engine


def test_each_generation_knows_up_to_where_it_agrees_with_those_before(tmp_path: Path) -> None:
    with Engine(tmp_path / "state.sqlite") as engine, closing(engine.connect()) as store:
        first = epochs_of(store)
        assert first == epochs_of(store)
        store.set_progress(position=10)
        second = begin_epoch(store)
        store.set_progress(position=25)
        third = begin_epoch(store)
        assert epochs_of(store) == third
        assert len({first.now, second.now, third.now}) == 3
        for generation, agreed in ((first, 10), (second, 25), (third, 99)):
            assert third.agreed(generation.now, 99) == agreed
            assert third.agreed(generation.now, 7) == 7
        assert third.agreed((third.now + 1) % (1 << 32), 7) == 0, "nobody knows that one"
        assert second.agreed(third.now, 7) == 0, "nor does an older store the younger one"
        assert first.prefix.startswith("g")
        assert len(first.prefix) == 10


def test_a_new_store_is_another_generation_and_an_opened_one_is_the_same(tmp_path: Path) -> None:
    found = []
    for name in ("a.sqlite", "b.sqlite", "a.sqlite"):
        with Engine(tmp_path / name) as engine, closing(engine.connect()) as store:
            found.append(epochs_of(store).now)
    assert found[0] == found[2] != found[1]
    with Engine() as engine, closing(engine.connect()) as store:
        assert epochs_of(store).now == 0
