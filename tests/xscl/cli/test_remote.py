"""Each command says the same of a data directory and of the service that runs on it."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import httpx
import pytest
from typer import Context
from typer.main import get_command
from typer.testing import Result

from tests.waiting import beside
from tests.xscl.commandline import answered, called, failed, json_rows
from tests.xscl.polling import scripted
from tests.xscl.service.conftest import serving
from xscl.cli import app
from xscl.cli.connection import feeds_like, subscriptions_like
from xscl.cli.service import OpenedService
from xscl.client import Refused, async_client
from xscl.delivery.outbox.endpoints import Endpoints
from xscl.engine.facade import Engine
from xscl.ingestion.data_directory import DataDirectory
from xscl.polling.credentials import NAME, secrets_in
from xscl.polling.feed_poller import PollSettings

PAIR = "S//book->b[./title->t] JOIN{t=u, 30 d} S//blog->c[./title->u]"
HIT = f"SELECT <hit t='{{t}}'>{{c/note}}</hit> FROM {PAIR}"
BOOK = "<book isbn='7'><author>A Press</author><title>Feeds</title></book>"
BLOG = "<blog><title>Feeds</title><note>good</note></blog>"
OPML = "<opml version='2.0'><body><outline xmlUrl='https://d.example/f' text='D'/></body></opml>"


@dataclass(frozen=True)
class Both:
    """A data directory that no service runs on, and one with the same in it where one does."""

    alone: Path
    served: Path
    address: str

    def document(self, name: str) -> str:
        return str(self.alone.parent / name)

    def served_says(self, *arguments: str) -> str:
        done = called(*arguments, "--data", str(self.served))
        assert done.exit_code == 0, done.output
        return done.stdout

    def served_fails(self, code: int, *arguments: str) -> str:
        return failed(code, *arguments, "--data", str(self.served))

    def ask(self, *arguments: str) -> tuple[Result, Result]:
        """Run a command on both."""
        first, second = (called(*arguments, "--data", str(d)) for d in (self.alone, self.served))
        return first, second

    def say_the_same(self, *arguments: str, code: int = 0) -> Result:
        """Run a command on both, which end and say the same; return what that is."""
        alone, served = self.ask(*arguments)
        assert "Traceback" not in alone.output
        assert (served.stdout, served.stderr) == (alone.stdout, alone.stderr)
        assert served.exit_code == alone.exit_code == code, alone.output
        return alone

    def write(self, name: str, text: str) -> str:
        """Write a file of documents; return its path."""
        Path(self.document(name)).write_text(text)
        return self.document(name)


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    folder = tmp_path_factory.mktemp("remote")
    alone, served = folder / "alone", folder / "served"
    for name, text in (("book.xml", BOOK), ("blog.xml", BLOG), ("list.opml", OPML)):
        (folder / name).write_text(text)
    documents = [str(folder / "book.xml"), str(folder / "blog.xml")]
    headed = ["--stream", "headed", "--header", "X-Key: nobody"]
    made = [
        ["subscribe", "pair", PAIR],
        ["subscribe", "hit", HIT],
        ["subscribe", "made", f"{PAIR} PUBLISH P"],
        ["subscribe", "reads", "P//result->r"],
        ["feeds", "add", "https://a.example/f", "--keep", "--stream", "a", "--tag", "daily"],
        ["feeds", "add", "https://b.example/f?token=topsecret", "--keep", "--stream", "b"],
        ["feeds", "add", "https://h.example/f", "--keep", *headed],
        ["push", "--stream", "S", "--at", "2024-05-06", *documents],
    ]
    with serving(DataDirectory(served)) as running:
        for arguments in made:
            first = called(*arguments, "--data", str(alone))
            second = called(*arguments, "--data", str(served))
            assert (first.exit_code, second.exit_code) == (0, 0), (first.output, second.output)
        yield Both(alone, served, running.address)


SAME = [
    (0, ["subscriptions"]),
    (0, ["matches", "hit"]),
    (0, ["matches", "reads", "--json"]),
    (1, ["matches", "pair", "--after", "nix"]),
    (0, ["try", HIT, "--json"]),
    (2, ["try", PAIR, "--since", "x d"]),
    (0, ["why", PAIR, "BLOG", "BOOK"]),
    (0, ["explain", PAIR, "--sql", "--json"]),
    (0, ["explain", "hit", "--svg", "hit.svg"]),
    (0, ["witness", "BOOK"]),
    (0, ["sql", "SELECT docid, node1, node2, strVal FROM R_doc NATURAL JOIN R_bin ORDER BY ALL"]),
    (0, ["sql", "SELECT sum(i) AS s, 1.5::DECIMAL(4,2) AS d, NULL AS n FROM range(4) r(i)"]),
    (0, ["sql", "SELECT 1 AS a, 2 AS a, 3 AS A, {'d': [DATE '2026-01-02']} AS n", "--json"]),
    (0, ["sql", "SELECT INTERVAL 36 HOUR AS i, [0.5] AS l"]),
    (0, ["sql", "SELECT TIMETZ '10:00:00+02' AS t, '0101'::BIT AS b, [TIMETZ '10:00:00+02'] AS l"]),
    (0, ["sql", "SELECT DATE 'infinity' AS i, TIMESTAMP '20000-01-02' AS t, 1 AS a"]),
    (0, ["sql", "SELECT * FROM relations"]),
    (0, ["stream", "list", "--json"]),
    (1, ["stream", "set", "S", "--lateness", "1h"]),
    (2, ["stream", "set", "S", "--lateness", "3"]),
    (0, ["feeds", "export"]),
    (1, ["subscribe", "pair", PAIR]),
    (2, ["subscribe", "bad", "S//a->x JOIN{x=y, 3} S//b->y"]),
    (2, ["subscribe", "loop", "Q//a PUBLISH Q"]),
    (1, ["unsubscribe", "made"]),
    (2, ["feeds", "edit", "headed", "--header", "X-Other: nobody"]),
    (1, ["unsubscribe", "a/b"]),
    (1, ["token", "revoke", "nope"]),
]
"""Exit codes and commands."""


@pytest.mark.parametrize(("code", "arguments"), SAME, ids=[" ".join(one)[:60] for _, one in SAME])
def test_it_is_the_same_with_a_service_and_without(
    both: Both, folder: Path, code: int, arguments: list[str]
) -> None:
    names = {"BOOK": both.document("book.xml"), "BLOG": both.document("blog.xml")}
    told = both.say_the_same(*(names.get(one, one) for one in arguments), code=code)
    assert told.stdout or told.stderr


def test_tags_are_set_listed_and_imported(both: Both) -> None:
    both.say_the_same("tag", "hit", "sea", "daily")
    assert both.say_the_same("tag", "hit", "daily", "--remove").stdout == "tags of 'hit': sea\n"
    (row,) = json_rows(both.say_the_same("subscriptions", "--tag", "sea", "--rows").stdout)
    assert row == {"name": "hit", "query": HIT, "updates": False, "stories": False, "tags": ["sea"]}
    copy = both.write("rows.jsonl", json.dumps(row | {"name": "copy"}))
    told = both.say_the_same("import", copy)
    assert told.stdout == "1 new subscription, 0 there already\n"
    listed = both.say_the_same("subscriptions", "--tag", "sea", "--json")
    assert [one["name"] for one in json_rows(listed.stdout)] == ["copy", "hit"]
    both.say_the_same("tag", "hit", "two words", code=1)
    both.say_the_same("unsubscribe", "copy")
    both.say_the_same("tag", "hit", "sea", "--remove")


def test_feeds_are_the_same_but_for_when_they_are_polled(both: Both) -> None:
    alone, served = (json_rows(done.stdout) for done in both.ask("feeds", "list", "--json"))
    known = ("url", "key", "stream", "tags", "every", "lateness", "headers", "items", "moved_to")
    assert [list(one) for one in served] == [list(one) for one in alone]
    assert [[one[name] for name in known] for one in served] == [
        [one[name] for name in known] for one in alone
    ]
    assert "topsecret" not in json.dumps(served)
    shown = both.served_says("feeds", "show", "a").splitlines()
    given = [name for name, value in served[0].items() if value not in (None, "", [])]
    assert [line[:14].rstrip() for line in shown] == [name.replace("_", " ") for name in given]
    assert {"every          1 h", "lateness       2 h"} <= set(shown)
    assert "tags           daily" in shown


def test_matches_are_brought_to_a_webhook(both: Both) -> None:
    url = ("--webhook", "https://hooks.example/x?key=topsecret", "--json")
    for done in both.ask("subscribe", "hooked", "S//a", *url):
        made = json.loads(done.stdout)
        assert made["subscribed"] == "hooked"
        assert made["webhook"]["secret"].startswith("whsec_")
    with httpx.Client(base_url=both.address, trust_env=False) as client:
        (endpoint,) = client.get("/v1/subscriptions/hooked/endpoints").json()
        assert endpoint["id"] == made["webhook"]["id"]
        assert "topsecret" not in json.dumps(endpoint)
    for states in (["active"], []):
        with Engine(DataDirectory(both.alone).database) as engine, closing(engine.connect()) as s:
            found = Endpoints(s, secrets_in(both.alone / NAME)).all()
            assert [one.state for one in found] == states
        if states:
            both.say_the_same("unsubscribe", "hooked")
    refused = both.served_fails(1, "subscribe", "h", "S//a", "--webhook", "http://127.0.0.1:80/x")
    assert "127.0.0.1" in refused
    assert "no subscription named 'h'" in both.served_fails(1, "unsubscribe", "h")
    for done in both.ask("subscribe", "h", "S//a", "--webhook", "nix"):
        assert (done.exit_code, "is no address of a webhook" in done.stderr) == (2, True)


def test_many_are_imported(both: Both) -> None:
    rows = [{"name": f"n{i}", "query": f"S//a[. = '{i}']->x"} for i in range(30)]
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    table = "name,query\n" + "".join(f'{row["name"]},"{row["query"]}"\n' for row in rows)
    for name, text, new in (("many.jsonl", lines, 30), ("many.csv", table, 0)):
        told = both.say_the_same("import", both.write(name, text), "--json")
        assert json.loads(told.stdout) == {"new": new, "unchanged": 30 - new}
    wrong = {
        "S//a[": (2, "row 31: "),
        "S//a JOIN{x=y, 3} S//b": (2, "the window 3 has no unit"),
        "S//b": (1, "row 1: there is a subscription named 'n0' already, with another query"),
    }
    for query, (code, message) in wrong.items():
        name = "n0" if code == 1 else "extra"
        more = lines if code == 2 else ""
        row = json.dumps({"name": name, "query": query}) + "\n"
        told = both.say_the_same("import", both.write("wrong.jsonl", more + row), code=code)
        assert message in told.stderr


def test_what_is_pushed_is_taken_in_and_its_matches_are_told(both: Both) -> None:
    query = "N//*[./title->t] JOIN{t=u, 1 d} N//*[./title->u]"
    texts = [both.write("n1.xml", BOOK), both.write("n2.xml", BLOG), both.document("none.xml")]
    # what other tests push may be a year later
    both.say_the_same("stream", "set", "N", "--lateness", "1000 d")
    both.say_the_same("subscribe", "near", query)
    alone, served = both.ask("push", "--stream", "N", "--at", "2024-05-07", "--json", *texts)
    one, other = json.loads(alone.stdout), json.loads(served.stdout)
    assert list(one) == list(other)
    assert (one["documents"], one["not_read"]) == (other["documents"], other["not_read"]) == (2, 1)
    assert (one["new"], other["new"]) == (2, None)  # the ids are there, but on another stream
    assert one["matches"] == other["matches"] != []
    assert served.stderr == alone.stderr
    text = both.served_says("push", "--stream", "N", "--at", "2024-05-07", texts[0])
    assert text == "1 document, sent; 0 not read; 0 matches\n"


def test_times_of_every_size_are_sent(both: Both) -> None:
    """`push` warns of Unix seconds and sends the document; the service would reject the number."""
    times = (1, 2024, 1_715_000_001, 1_715_000_000_001, 1_715_000_000_000_001)
    rows = [{"id": f"sized-{time}", "timestamp": time, "xml": BOOK} for time in times]
    path = both.write("sizes.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    alone, served = both.ask("push", "--stream", "Sizes", path, "--json")
    assert served.stderr == alone.stderr != ""
    assert alone.exit_code == served.exit_code == 0
    query = "SELECT id, timestamp FROM documents WHERE id LIKE 'sized-%' ORDER BY id"
    assert both.say_the_same("sql", query, "--json").stdout.count("sized-") == len(times)


def test_streams_are_set_and_what_is_left_out_stays(both: Both) -> None:
    for options, told in (
        (["--lateness", "1.5 h"], "lateness 90 min, not live"),
        (["--live"], "lateness 90 min, live"),
        (["--lateness", "7 ms"], "lateness 7 ms, live"),
        (["--not-live"], "lateness 7 ms, not live"),
    ):
        done = both.say_the_same("stream", "set", "orders", *options)
        assert (done.stdout, done.stderr) == (f"orders: {told}\n", "")
    stream = {"name": "orders", "lateness": 0.007, "live": False}
    assert {**stream, "documents": 0} in json_rows(
        both.say_the_same("stream", "list", "--json").stdout
    )
    query = "orders//a NOT FOLLOWED BY{1 h} orders//b"
    told = both.say_the_same("subscribe", "absent", query).stderr
    assert "'orders' is not live; if documents arrive as they happen," in told
    assert "'xscl stream set orders --live'" in told
    refused = both.say_the_same("stream", "set", "orders", "--lateness", "1 d", "--live", code=1)
    assert "the lateness of 'orders' cannot change while subscriptions read it" in refused.stderr
    assert "hint: set it before the first subscription" in refused.stderr
    changed = both.say_the_same("stream", "set", "orders", "--live", "--json")
    assert json.loads(changed.stdout) == {**stream, "live": True}
    both.say_the_same("unsubscribe", "absent")


def test_late_documents_are_counted(both: Both) -> None:
    """Only those of this push, and only once; an absence is late at once, a join by its window."""
    for name, query in (
        ("silence", "Y//a NOT FOLLOWED BY{1 h} Y//b"),
        ("soon", "Y//a->x JOIN{x=y, 1 h} Y//a->y"),
    ):
        both.say_the_same("subscribe", name, query, "--from-now")

    def push(name: str, day: int, *options: str) -> tuple[Result, Result]:
        row = {"id": name, "timestamp": f"2025-03-{day:02}", "xml": f"<a>{name}</a>"}
        return both.ask("push", "--stream", "Y", both.write("y.jsonl", json.dumps(row)), *options)

    for name, day, late in (("y1", 10, 0), ("y2", 2, 1), ("y2", 2, 0), ("y3", 1, 1), ("y4", 20, 0)):
        for done in push(name, day, "--json"):
            assert json.loads(done.stdout)["late"] == late
            assert "1 came too late" not in done.stderr
    for done in push("y5", 3):
        assert done.stderr.startswith("xscl: 1 came too late for some subscription: xscl sql")
    with httpx.Client(base_url=both.address, trust_env=False) as client:
        arrived = [one["id"] for one in client.get("/v1/late").json()]
    assert arrived == ["y5", "y3", "y2"], "the last one to arrive is the first"
    for query in ("Y//a NOT FOLLOWED BY{1 h} Y//b", "soon"):
        for done in both.ask("try", query):
            assert "xscl: 3 documents were too late for this query (lateness 0 s)\n" in done.stderr


def test_what_cannot_be_read_is_a_row_of_rejected_once(both: Both) -> None:
    """The command or the service may detect the malformed document."""
    lines = '{"xml": "<a/>", "id": "fine"}\n{"xml": "<a", "id": "half"}\n{"xml": 7\n'
    lines += '{"xml": "<a/>", "stream": "a b"}\n'
    paths = [both.write("broken.xml", "<a><b></a>"), both.write("lines.jsonl", lines)]
    shown = "SELECT id, reason, message, beginning FROM rejected WHERE stream = 'R' ORDER BY ALL"
    for _ in range(2):
        alone, served = both.ask("push", "--stream", "R", "--at", "2024-05-07", *paths)
        assert (alone.exit_code, served.exit_code) == (1, 1), served.output
        assert served.stderr == alone.stderr
        assert "1 document, sent; 4 not read" in served.stdout
        rows = json_rows(both.say_the_same("sql", shown, "--json").stdout)
    told = "<a", "<a><b></a>", lines.splitlines(True)[-1], '{"xml": 7\n'
    assert sorted(row["beginning"] for row in rows) == sorted(told)


def test_a_malformed_document_may_be_refused_for_another_reason(
    both: Both, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = both.write("broken.xml", "<a><b></a>")
    ask = OpenedService.ask

    def refuse(service: OpenedService, method: str, path: str, **request: Any) -> httpx.Response:
        if method == "POST":
            raise Refused(429, "busy", "too many documents wait")
        return ask(service, method, path, **request)

    monkeypatch.setattr(OpenedService, "ask", refuse)
    said = both.served_fails(1, "push", "--stream", "R", broken)
    assert "not read" in said
    assert "too many documents wait" in said


def test_registrations_are_exported_while_the_service_runs(both: Both, tmp_path: Path) -> None:
    for home in (both.alone, both.served):  # other tests add to both
        file = tmp_path / f"{home.name}.json"
        answered("export", str(file), "--data", str(home))
        exported = json.loads(file.read_text())
        assert {PAIR, HIT} <= {row["query"] for row in exported["subscription"]}
        urls = {row["url"] for row in exported["feed"]}
        assert urls >= {"https://a.example/f", "https://b.example/f?token=topsecret"}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["alone.json", "served.json"]


def test_a_poll_is_made_by_the_service(tmp_path: Path) -> None:
    with scripted.serving() as source:
        allowed = PollSettings((source.address,))
        source.says("/one", scripted.reply(scripted.rss("a same", "b same")))
        with serving(DataDirectory(tmp_path / "data"), fetching=allowed):
            here = ("--data", str(tmp_path / "data"))
            source.says("/page", scripted.reply(b"<html><title>no feed</title></html>"))
            subscribe = ["subscribe", "echo", "feeds//item->a[./title->t]"]
            assert called(*subscribe, *here).exit_code == 0
            done = called("feeds", "add", source.url("/one"), "--stream", "one", *here)
            assert "it has 2 items: new subscriptions begin with their matches" in done.stderr
            told = failed(1, "feeds", "add", source.url("/page"), "--stream", "two", *here)
            assert "/page is not followed: the answer is a web page, not a feed" in told
            source.says("/one", scripted.reply(scripted.rss("a same", "b same", "c new")))
            told = json.loads(called("feeds", "poll", "one", "--json", *here).stdout)
            assert list(told) == ["feeds", "matches", "matches_among_history"]
            assert [one["stream"] for one in told["feeds"]] == ["one"]
            items = json.loads(called("feeds", "show", "one", "--json", *here).stdout)["items"]
            assert items == 3


def test_a_service_is_named_and_asked_with_a_token(both: Both, tmp_path: Path) -> None:
    made = json.loads(both.served_says("token", "create", "--user", "ann", "--json"))
    assert made["user"] == "ann"
    secret = tmp_path / "token"
    secret.write_text(made["token"] + "\n")
    asked = ("--url", both.address, "--token", f"@{secret}")
    assert called("subscriptions", "--json", *asked).stdout == ""
    listed = called("token", "list", "--json", *asked).stdout
    assert [one["user"] for one in json_rows(listed)] == ["ann"]
    assert made["token"] not in listed
    exported = json_rows(both.served_says("user", "export", "ann"))
    assert {"account", "token"} <= {one["kind"] for one in exported}
    for command in (("token", "create", "--user", "ann"), ("user", "export", "ann")):
        alone = answered(*command, "--json", "--data", str(both.alone))
    assert {one["kind"] for one in json_rows(alone)} == {one["kind"] for one in exported}
    told = failed(2, "subscribe", "s", "nowhere//a", *asked)
    assert "there is no stream 'nowhere'\n  nowhere//a\n  ^\n" in told
    assert "for its operator" in called("status", *asked).stderr
    both.served_says("token", "revoke", made["id"])
    assert failed(1, "subscriptions", *asked) == (
        "xscl: the token is wrong, revoked or expired\n"
        "hint: give a token with --token @FILE or XSCL_TOKEN; 'xscl token create' makes one\n"
    )
    assert made["token"] not in called("status", "--help").output


def test_a_token_on_the_command_line_is_warned_of(both: Both, tmp_path: Path) -> None:
    made = json.loads(both.served_says("token", "create", "--user", "eve", "--json"))["token"]
    (tmp_path / "token").write_text(made)
    settings = tmp_path / "xscl" / "xscl.toml"
    settings.parent.mkdir()
    settings.write_text('token-file = "../token"\n')
    asked = ("subscriptions", "--json", "--url", both.address)
    warned = called(*asked, "--token", made)
    assert "can be read by all users" in warned.stderr
    assert made not in warned.stderr
    assert warned.exit_code == 0
    for arguments, environment in (
        (("--token", f"@{tmp_path / 'token'}"), {}),
        ((), {"XSCL_TOKEN": made}),
        ((), {"XSCL_TOKEN": f"@{tmp_path / 'token'}"}),
        ((), {"XSCL_TOKEN_FILE": str(tmp_path / "token")}),
        ((), {"XDG_CONFIG_HOME": str(tmp_path)}),
    ):
        with patch.dict(os.environ, environment):
            done = called(*asked, *arguments)
        assert (done.exit_code, done.stderr) == (0, "")


@pytest.mark.parametrize(
    "command",
    [["subscriptions"], ["status"], ["subscribe", "mine", "S//a"], ["explain", "S//a"]],
    ids=lambda one: one[0],
)
def test_a_token_is_refused_where_no_service_reads_it(
    both: Both, command: list[str], tmp_path: Path
) -> None:
    (tmp_path / "token").write_text("nonsense")
    asked = (*command, "--data", str(both.alone))
    told = failed(2, *asked, "--token", f"@{tmp_path / 'token'}")
    assert told == (
        f"xscl: no service runs on {both.alone}, so a token has no effect\n"
        "hint: start 'xscl serve', or leave out --token\n"
    )


@pytest.mark.parametrize("variable", ["XSCL_TOKEN", "XSCL_TOKEN_FILE"])
def test_a_token_of_the_environment_is_warned_of_where_no_service_reads_it(
    both: Both, variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, "nonsense")
    alone, served = both.ask("subscriptions")
    told = f"xscl: warning: no service runs on {both.alone}, so a token has no effect:"
    assert (alone.exit_code, alone.stderr) == (0, f"{told} this is done as the operator\n")
    assert served.exit_code in (1, 2)


def test_a_service_that_accepts_and_does_not_answer_is_busy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    settings = async_client.settings
    monkeypatch.setattr(
        async_client, "settings", lambda address, token, _: settings(address, token, 0.2)
    )
    with socket.create_server(("127.0.0.1", 0)) as listening:
        address = f"http://127.0.0.1:{listening.getsockname()[1]}"
        told = failed(1, "subscriptions", "--url", address)
    assert "sent no answer within" in told
    assert "it is busy, not stopped" in told
    assert "running" not in told


def test_a_service_that_closes_the_connection_has_stopped() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        address = f"http://127.0.0.1:{listening.getsockname()[1]}"
        with beside(lambda: listening.accept()[0].close()):
            told = failed(1, "subscriptions", "--url", address)
    assert "closed the connection" in told


def test_an_empty_list_is_said_to_be_empty(tmp_path: Path) -> None:
    here = ("--data", str(tmp_path / "data"))
    for change in (("subscribe", "one", "S//a"), ("unsubscribe", "one")):
        assert called(*change, *here).exit_code == 0
    commands = {"subscriptions": "subscriptions", "feeds": "feeds list", "tokens": "token list"}
    for what, command in commands.items():
        done = called(*command.split(), *here)
        assert (done.exit_code, done.stdout, done.stderr) == (0, "", f"xscl: no {what}\n")
        assert called(*command.split(), "--json", *here).stdout == ""


def test_what_a_service_does_not_take_is_told_before_it_is_asked(both: Both) -> None:
    assert "cannot stand in an address" in both.served_fails(2, "token", "revoke", "a/b")
    two = ("push", "--stream", "A", "--stream", "B", both.document("book.xml"))
    assert "for one stream" in both.served_fails(2, *two)
    assert "writes no secret" in both.served_fails(2, "feeds", "export", "--secrets")
    assert "in use by process" in both.served_fails(1, "restore", "--accept")


def test_names_are_completed_by_a_service(both: Both) -> None:
    context = Context(get_command(app), info_name="xscl")
    context.params = {"data": both.served}
    assert subscriptions_like(context, "pa") == ["pair"]
    assert feeds_like(context, "a") == ["a"]
    context.params = {"data": both.alone}
    assert subscriptions_like(context, "pa") == []
    context.params = {"url": "http://127.0.0.1:9"}
    assert feeds_like(context, "a") == []


def test_a_document_for_a_stream_that_takes_none_is_named(both: Both) -> None:
    both.say_the_same("subscribe", "maker", "SELECT <m>{x}</m> FROM S//a->x PUBLISH Made")
    path = both.write("made.jsonl", '\n{"xml": "<a/>", "stream": "Made"}\n')
    told = both.ask("push", path)
    message = f"{path}:2: the stream 'Made' has what a subscription publishes"
    assert all(one.exit_code == 1 and message in one.stderr for one in told)
