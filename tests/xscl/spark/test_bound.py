"""The bound of results over all buckets: all matches of a document with a subscription, or none."""

from __future__ import annotations

import pyarrow as pa
import pytest

from templates.model.result_bound import RESULTS
from xscl.spark.bound import in_shares, within_bound
from xscl.spark.match_rows import FOUND
from xscl.spark.part_format import unpacked


def row(match: str | None, newcomer: str, answers: int) -> dict[str, object]:
    """Return a row of `FOUND` of one subscription."""
    return {"id": match, "subscription": "s", "newcomer": newcomer, "answers": answers}


@pytest.mark.parametrize(("more", "expected"), [(0, ["m1", "m2", "m3"]), (1, ["m3"])])
def test_a_document_over_the_bound_has_no_match(more: int, expected: list[str]) -> None:
    rows = [row("m1", "S/a", RESULTS - 1), row("m2", "S/a", 1 + more), row("m3", "S/b", 1)]
    found = within_bound(pa.Table.from_pylist(rows, schema=FOUND)).to_pylist()
    assert sorted(one["id"] for one in found if one["id"]) == expected
    rejected = [one["_rejected"] for one in found if not one["id"]]
    assert [one["id"] for one in rejected] == ["S/a"] * more
    assert all("more than 10,000 results" in one["message"] for one in rejected)


def test_a_match_of_several_buckets_is_one_row() -> None:
    rows = [row("m1", "S/a", 1), row("m1", "S/a", 2), row("m2", "S/a", 1)]
    found = within_bound(pa.Table.from_pylist(rows, schema=FOUND))
    assert sorted(found["id"].to_pylist()) == ["m1", "m2"]


def test_a_bucket_with_too_many_results_rejects_those_of_all() -> None:
    rows = [row("m1", "S/a", 1), row(None, "S/a", RESULTS + 1), row("m2", "S/b", 1)]
    found = within_bound(pa.Table.from_pylist(rows, schema=FOUND)).to_pylist()
    assert [one["id"] for one in found] == ["m2", None]
    assert found[1]["_rejected"]["id"] == "S/a"


def test_a_share_has_all_rows_of_its_documents() -> None:
    rows = [row(f"m{number}", f"S/{number % 7}", 1) for number in range(50)]
    shares = dict(in_shares(pa.Table.from_pylist(rows, schema=FOUND), 3))
    assert shares.keys() <= {0, 1, 2}
    newcomers = [set(unpacked(data)["newcomer"].to_pylist()) for data in shares.values()]
    assert sum(map(len, newcomers)) == 7
    assert sum(unpacked(data).num_rows for data in shares.values()) == 50
