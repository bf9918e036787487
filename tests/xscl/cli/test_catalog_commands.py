"""`xscl spark subscribe`, `unsubscribe`, `list`, and what `run` refuses before Spark starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.xscl.commandline import called, json_rows
from xscl.cli import extras
from xscl.spark.catalog import Catalog

AGAIN = "S//a[./k->x] FOLLOWED BY{x = y, 7 d} S//a[./k->y]"
EVER = "S//a[./k->x] FOLLOWED BY{x = y, INF} S//a[./k->y]"
JOB = ("--source", "parquet:in", "--sink", "parquet:out", "--checkpoint", "progress")


def spark(command: str, *arguments: str, catalog: str = "catalog") -> tuple[int, str, str]:
    done = called("spark", command, "--catalog", catalog, *arguments)
    return done.exit_code, done.stdout, done.stderr


def test_subscriptions_come_and_go() -> None:
    Path("q.xscl").write_text(AGAIN)
    assert spark("subscribe", "two", "@q.xscl") == (0, "subscribed 'two'\n", "")
    assert spark("subscribe", "one", AGAIN, "--json")[0] == 0
    listed = json_rows(spark("list", "--json")[1])
    assert listed == [{"name": name, "query": AGAIN} for name in ("one", "two")]
    assert spark("unsubscribe", "one") == (0, "unsubscribed 'one'\n", "")
    assert [line.split()[0] for line in spark("list")[1].splitlines()] == ["NAME", "two"]


def test_a_list_is_one_of_a_catalog_that_is_open_elsewhere() -> None:
    with Catalog("catalog") as catalog:
        assert spark("list") == (0, "", "xscl: no subscriptions\n")
        catalog.subscribe("one", AGAIN)
        assert "one" in spark("list")[1]
        code, _, errors = spark("subscribe", "two", AGAIN)
    assert code == 1
    assert "in use" in errors


def test_a_window_without_end_needs_consent_once() -> None:
    code, _, errors = spark("subscribe", "ever", EVER)
    assert code == 2
    assert "executors cannot evaluate the subscription 'ever': its window is INF" in errors
    assert not Path("catalog").exists()
    assert spark("subscribe", "ever", EVER, "--forever")[0] == 0
    assert spark("subscribe", "again", AGAIN)[0] == 0
    assert [one["name"] for one in json_rows(spark("list", "--json")[1])] == ["again", "ever"]


@pytest.mark.parametrize("command", [("list",), ("unsubscribe", "one"), ("run", *JOB)])
def test_a_catalog_that_is_not_there(command: tuple[str, ...]) -> None:
    pytest.importorskip("pyspark", reason="the extra xscl[spark] is not installed")
    code, _, errors = spark(*command, catalog="nowhere")
    assert (code, Path("nowhere").exists()) == (1, False)
    assert errors.startswith("xscl: there is no catalog in ")
    assert "hint: 'xscl spark subscribe'" in errors


def test_without_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    spark("subscribe", "one", AGAIN)
    monkeypatch.setitem(extras.PACKAGES, "spark", ("absent-one", "absent-two"))
    code, _, errors = spark("run", *JOB)
    assert code == 1
    assert "needs the extra 'spark' (not installed: absent-one, absent-two)" in errors
    assert "pip install 'xscl[spark]'" in errors
