"""xscl.toml and the environment: which value of an option counts, and what is refused."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from time import tzset
from zoneinfo import ZoneInfo

import pytest

from feeds.documents import Document
from feeds.spool import Spool
from tests.xscl.commandline import answered, called, failed, json_rows
from xscl.cli.settings import config
from xscl.ingestion.data_directory import DataDirectory
from xscl.polling.arrival_clock import DAY
from xscl.polling.feed_repository import ticks
from xscl.store.store_errors import DATABASE
from xscl.time_format import written


@pytest.fixture(autouse=True)
def environment(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("XSCL_PORT", "XSCL_TOKEN_FILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(folder / "config"))


def spooled(folder: Path) -> Spool:
    """Return the spool of the data directory, with three segments."""
    spool = Spool(folder / "xscl-data" / "spool")
    for number in range(1, 4):
        spool.append([Document("S", f"d{number}", number, b"<a/>")], number)
    return spool


def test_every_time_is_printed_in_the_zone_that_is_asked_for(folder: Path) -> None:
    moment = datetime.now(UTC).replace(microsecond=0) - timedelta(hours=1)
    (folder / "a.xml").write_text("<a/>")
    called("push", "a.xml", "--stream", "S", "--at", moment.isoformat())
    here = moment.astimezone(ZoneInfo("Asia/Kolkata")).isoformat()
    for command in (("subscribe", "all", "S//a->x"), ("status",), ("matches", "all")):
        printed = called(*command, "--timezone", "Asia/Kolkata").stdout
        assert here in printed
        assert not re.search(r"\d\d:\d\dZ", printed)


SHOWN = (
    ("matches", "all"),
    ("matches", "all", "--verbose"),
    ("stories", "pairs"),
    ("try", "S//a->x"),
    ("try", "S//a->x", "--timezone", "local"),
    ("status",),
    ("subscribe", "new", "S//a->x"),
    ("why", "silent", "summer", "-"),
    ("run", "--query", "S//a->x", "--stream", "S=summer.jsonl"),
)
"""Commands that print the time of the document `summer`."""


@pytest.mark.parametrize(
    ("zone", "winter", "summer"),
    [
        ("America/New_York", "2026-01-15T07:00:00-05:00", "2026-07-15T08:00:00-04:00"),
        ("Asia/Kolkata", "2026-01-15T17:30:00+05:30", "2026-07-15T17:30:00+05:30"),
    ],
)
def test_times_are_printed_in_the_zone_of_the_machine(
    folder: Path, monkeypatch: pytest.MonkeyPatch, zone: str, winter: str, summer: str
) -> None:
    answered("subscribe", "all", "S//a->x")
    answered("subscribe", "pairs", "S//a->x JOIN{x = y, 300 d} S//a->y", "--stories")
    answered("subscribe", "silent", "S//a->x NOT FOLLOWED BY{x = y, 2 s} S//b->y")
    for name, at in (("winter", "2026-01-15T12:00"), ("summer", "2026-07-15T12:00Z")):
        record = {"id": name, "timestamp": at, "xml": "<a>1</a>"}
        (folder / f"{name}.jsonl").write_text(json.dumps(record))
        answered("push", f"{name}.jsonl", "--stream", "S")
    with monkeypatch.context() as machine:
        machine.setenv("TZ", zone)
        tzset()
        try:
            for command in SHOWN:
                done = called(*command)
                assert summer[:-9] in done.output, (command, done.output)
                assert not re.search(r"\d\d:\d\dZ", done.output), command
            assert winter in answered("matches", "all")
            for row in json_rows(answered("matches", "all", "--json")):
                assert row["timestamp"] in ("2026-01-15T12:00:00Z", "2026-07-15T12:00:00Z")
        finally:
            machine.undo()
            tzset()


def says(folder: Path, text: str) -> None:
    folder.mkdir(exist_ok=True, parents=True)
    (folder / "xscl.toml").write_text(text)


def data_of(*arguments: str) -> str:
    """Return the data directory that a command means."""
    told = failed(1, "status", *arguments)
    return Path(told.partition("no data in ")[2].partition(" yet")[0]).name


def test_the_option_counts_before_the_environment_and_that_before_the_file(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert data_of() == "xscl-data"
    says(folder, 'data = "filed"')
    assert data_of() == "filed"
    monkeypatch.setenv("XSCL_DATA", "environed")
    assert data_of() == "environed"
    assert data_of("--data", "flagged") == "flagged"


def test_the_first_file_counts_and_paths_are_relative_to_it(folder: Path) -> None:
    says(folder / "config" / "xscl", 'data = "own"')
    assert data_of() == "own"
    says(folder / "xscl-data", 'data = "beside"')
    assert data_of() == "beside"
    says(folder, 'data = "here"')
    assert data_of() == "here"
    assert config(["status", "--data=elsewhere"]) == {"data": str(folder / "here")}
    (folder / "xscl.toml").unlink()
    says(folder / "elsewhere", 'token-file = "t"')
    found = config(["status", "--data=elsewhere"])
    assert found == {"token-file": str(Path("elsewhere") / "t")}


def test_a_file_in_a_new_data_directory_does_not_stand_against_it(folder: Path) -> None:
    says(folder / "xscl-data", 'history = "7d"')
    answered("subscribe", "a", "S//a")


REFUSED = {
    "prot = 9": "there is no setting 'prot'\nhint: did you mean 'port'?\n",
    "zzz = 1": "there is no setting 'zzz'\nhint: there are data, url, ",
    'port = "9"': "port is not a number: '9'",
    "port = true": "port is not a number: True",
    "no-spark = 1": "no-spark is not true or false: 1",
    'name = "a"': "name is not a list of texts: 'a'",
    "port = ": "Invalid value",
}


@pytest.mark.parametrize("text", REFUSED)
def test_what_a_file_cannot_say(folder: Path, text: str) -> None:
    says(folder, text)
    told = failed(2, "status")
    assert told.startswith(f"xscl: {folder / 'xscl.toml'}: ")
    assert REFUSED[text] in told
    assert called("status", "--help").exit_code == 0


def test_names_of_arguments_are_no_settings(folder: Path) -> None:
    says(folder, 'name = ["host.example"]\nport = 1')
    assert "subscribed 'a'" in called("subscribe", "a", "S//a").stdout
    assert '"what": "port"' in called("doctor", "--json").stdout


def test_a_token_comes_from_a_file(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    says(folder, 'url = "http://127.0.0.1:9"\ntoken-file = "nix"')
    assert f"the token in {folder / 'nix'} cannot be read" in called("subscriptions").stderr
    monkeypatch.setenv("XSCL_TOKEN_FILE", "other")
    assert "the token in other cannot be read" in called("subscriptions").stderr
    (folder / "other").write_text("secret")
    assert "does not answer" in called("subscriptions").stderr


# -- doctor --------------------------------------------------------------------------------


def looked(*arguments: str) -> dict[str, dict[str, str]]:
    done = called("doctor", "--json", *arguments)
    found = {one["what"]: one for one in json_rows(done.stdout)}
    assert done.exit_code == (1 if any(one["sign"] == "bad" for one in found.values()) else 0)
    return found


def test_a_doctor_finds_nothing_wrong_with_a_new_directory(folder: Path) -> None:
    found = looked()
    assert found["data"]["sign"] == found["python"]["sign"] == found["disk"]["sign"] == "ok"
    assert {"java", "spark", "service", "clock", "port"} < set(found)
    assert list(folder.iterdir()) == []
    lines = called("doctor").stdout.splitlines()
    assert all(line[:6] in ("ok    ", "warn  ", "bad   ", "      ") for line in lines)


def test_a_doctor_finds_what_is_wrong_with_a_directory(folder: Path) -> None:
    answered("subscribe", "a", "S//a")
    data = folder / "xscl-data"
    before = (data / DATABASE).read_bytes()
    found = looked()
    assert {found[what]["sign"] for what in ("data", "store", "spool", "lock")} == {"ok"}
    assert found["store"]["found"].startswith("version ")
    assert (data / DATABASE).read_bytes() == before
    data.chmod(0o755)
    (data / "secrets.json").write_text("{")
    (data / "secrets.json").chmod(0o644)
    (data / DATABASE).write_bytes(before[: len(before) // 2])
    found = looked()
    assert found["data"]["hint"] == f"chmod 700 {data}"
    assert found["secrets"]["hint"] == f"chmod 600 {data / 'secrets.json'}"
    assert {found[what]["sign"] for what in ("data", "store", "secrets")} == {"bad"}
    (data / "secrets.json").chmod(0o600)
    assert "damaged" in looked()["secrets"]["found"]
    (data / DATABASE).unlink()
    assert "is missing" in looked()["store"]["found"]
    (data / "lock").unlink()
    spooled(folder).close()
    assert "and its mark are missing, and the spool" in looked()["store"]["found"]


@pytest.mark.usefixtures("apart")
@pytest.mark.parametrize("damage", ["lost", "damaged"])
def test_a_doctor_finds_segments_that_are_lost_or_damaged(folder: Path, damage: str) -> None:
    answered("subscribe", "a", "S//a")
    data = folder / "xscl-data"
    number = 2 if damage == "lost" else 3
    with spooled(folder) as spool:
        path = spool.segment(number).path
    if damage == "lost":
        path.unlink()
    else:
        path.write_bytes(path.read_bytes()[:-9])
    found = looked()["spool"]
    assert found["sign"] == "bad"
    assert found["found"].endswith(f"xscl spool skip {number} --data {data}")
    answered("spool", "skip", str(number))
    assert looked()["spool"]["sign"] == "ok"
    path.unlink(missing_ok=True)
    DataDirectory(data).write_status({"position": 3})
    assert looked()["spool"]["sign"] == "ok", "what was consumed is not missed"


@pytest.mark.parametrize(("days", "sign"), [(0, "ok"), (0.9, "ok"), (30, "bad")])
def test_a_doctor_finds_documents_ahead_of_the_clock(folder: Path, days: float, sign: str) -> None:
    answered("subscribe", "a", "S//a")
    ahead = written(ticks() + round(days * DAY))
    DataDirectory(folder / "xscl-data").write_status({"clock": ahead, "wall_clock": "ok"})
    found = looked()["clock"]
    assert found["sign"] == sign
    assert ("30 d ahead of this clock" in found["found"]) == (sign == "bad")
