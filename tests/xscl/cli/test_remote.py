"""Each command says the same of a data directory and of the service that runs on it."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from typer import Context
from typer.main import get_command
from typer.testing import Result

from tests.waiting import beside
from tests.xscl.commandline import called, failed, json_rows
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


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    folder = tmp_path_factory.mktemp("remote")
    alone, served = folder / "alone", folder / "served"
    for name, text in (("book.xml", BOOK), ("blog.xml", BLOG), ("list.opml", OPML)):
        (folder / name).write_text(text)
    documents = [str(folder / "book.xml"), str(folder / "blog.xml")]
    made = [
        ["subscribe", "pair", PAIR],
        ["subscribe", "hit", HIT],
        ["subscribe", "made", f"{PAIR} PUBLISH P"],
        ["subscribe", "reads", "P//result->r"],
        ["feeds", "add", "https://a.example/f", "--keep", "--stream", "a", "--tag", "daily"],
        ["feeds", "add", "https://b.example/f?token=topsecret", "--keep", "--stream", "b"],
        [
            "feeds",
            "add",
            "https://h.example/f",
            "--keep",
            "--stream",
            "headed",
            "--header",
            "X-Key: nobody",
        ],
        ["push", "--stream", "S", "--at", "2024-05-06", *documents],
    ]
    with serving(DataDirectory(served)) as running:
        for arguments in made:
            first = called(*arguments, "--data", str(alone))
            second = called(*arguments, "--data", str(served))
            assert (first.exit_code, second.exit_code) == (0, 0), (first.output, second.output)
        yield Both(alone, served, running.address)


SAME = [
    ["subscriptions"],
    ["matches", "hit"],
    ["matches", "reads", "--json"],
    ["matches", "pair", "--after", "nix"],
    ["try", HIT, "--json"],
    ["try", PAIR, "--since", "x d"],
    ["why", PAIR, "BLOG", "BOOK"],
    ["explain", PAIR, "--sql", "--json"],
    ["explain", "hit", "--svg", "hit.svg"],
    ["witness", "BOOK"],
    ["sql", "SELECT docid, node1, node2, strVal FROM R_doc NATURAL JOIN R_bin ORDER BY ALL"],
    ["sql", "SELECT sum(i) AS s, 1.5::DECIMAL(4,2) AS d, NULL AS n FROM range(4) r(i)"],
    ["stream", "list", "--json"],
    ["stream", "set", "S", "--lateness", "1h"],
    ["stream", "set", "S", "--lateness", "3"],
    ["feeds", "export"],
    ["subscribe", "pair", PAIR],
    ["subscribe", "bad", "S//a->x JOIN{x=y, 3} S//b->y"],
    ["subscribe", "loop", "Q//a PUBLISH Q"],
    ["unsubscribe", "made"],
    ["feeds", "edit", "headed", "--header", "X-Other: nobody"],
    ["unsubscribe", "a/b"],
    ["token", "revoke", "nope"],
]


@pytest.mark.parametrize("arguments", SAME, ids=lambda one: " ".join(one)[:60])
def test_it_is_the_same_with_a_service_and_without(
    both: Both, arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    names = {"BOOK": both.document("book.xml"), "BLOG": both.document("blog.xml")}
    alone, served = both.ask(*(names.get(one, one) for one in arguments))
    assert "Traceback" not in alone.output
    assert served.stdout == alone.stdout
    assert served.stderr == alone.stderr
    assert served.exit_code == alone.exit_code
    assert alone.stdout or alone.stderr


def test_tags_are_set_listed_and_imported(both: Both) -> None:
    for arguments in (["tag", "hit", "sea", "daily"], ["tag", "hit", "daily", "--remove"]):
        alone, served = both.ask(*arguments)
        assert served.stdout == alone.stdout
    assert alone.stdout == "tags of 'hit': sea\n"
    alone, served = both.ask("subscriptions", "--tag", "sea", "--rows")
    assert served.stdout == alone.stdout
    (row,) = json_rows(alone.stdout)
    assert row == {"name": "hit", "query": HIT, "updates": False, "stories": False, "tags": ["sea"]}
    Path(both.document("rows.jsonl")).write_text(json.dumps(row | {"name": "copy"}))
    for done in both.ask("import", both.document("rows.jsonl")):
        assert done.stdout == "1 new subscription, 0 there already\n"
    for done in both.ask("subscriptions", "--tag", "sea", "--json"):
        assert [one["name"] for one in json_rows(done.stdout)] == ["copy", "hit"]
    alone, served = both.ask("tag", "hit", "two words")
    assert (served.exit_code, served.stderr) == (alone.exit_code, alone.stderr)
    assert alone.exit_code == 1
    for done in (*both.ask("unsubscribe", "copy"), *both.ask("tag", "hit", "sea", "--remove")):
        assert done.exit_code == 0, done.output


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
    with (
        Engine(DataDirectory(both.alone).database) as engine,
        closing(engine.connect()) as store,
    ):
        found = Endpoints(store, secrets_in(both.alone / NAME)).of("hooked")
        assert [one.state for one in found] == ["active"]
    for done in both.ask("unsubscribe", "hooked"):
        assert done.exit_code == 0
    with (
        Engine(DataDirectory(both.alone).database) as engine,
        closing(engine.connect()) as store,
    ):
        assert store.fetch("SELECT id FROM state.endpoint") == []
    refused = both.served_fails(1, "subscribe", "h", "S//a", "--webhook", "http://127.0.0.1:80/x")
    assert "127.0.0.1" in refused
    assert "no subscription named 'h'" in both.served_fails(1, "unsubscribe", "h")
    for done in both.ask("subscribe", "h", "S//a", "--webhook", "nix"):
        assert (done.exit_code, "is no address of a webhook" in done.stderr) == (2, True)


def test_many_are_imported(both: Both) -> None:
    rows = [{"name": f"n{i}", "query": f"S//a[. = '{i}']->x"} for i in range(30)]
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    Path(both.document("many.jsonl")).write_text(lines)
    table = "name,query\n" + "".join(f'{row["name"]},"{row["query"]}"\n' for row in rows)
    Path(both.document("many.csv")).write_text(table)
    for name, new in (("many.jsonl", 30), ("many.csv", 0)):
        for done in both.ask("import", both.document(name), "--json"):
            assert json.loads(done.stdout) == {"new": new, "unchanged": 30 - new}
    wrong = {
        "S//a[": (2, "row 31: "),
        "S//a JOIN{x=y, 3} S//b": (2, "the window 3 has no unit"),
        "S//b": (1, "row 1: there is a subscription named 'n0' already, with another query"),
    }
    for query, (code, message) in wrong.items():
        name = "n0" if code == 1 else "extra"
        more = lines if code == 2 else ""
        row = json.dumps({"name": name, "query": query}) + "\n"
        Path(both.document("wrong.jsonl")).write_text(more + row)
        alone, served = both.ask("import", both.document("wrong.jsonl"))
        assert message in alone.stderr
        assert served.stderr == alone.stderr
        assert (served.exit_code, alone.exit_code) == (code, code)


def test_what_is_pushed_is_taken_in_and_its_matches_are_told(both: Both) -> None:
    query = "N//*[./title->t] JOIN{t=u, 1 d} N//*[./title->u]"
    texts = [both.document("book.xml"), both.document("blog.xml"), both.document("none.xml")]
    for done in both.ask("subscribe", "near", query):
        assert done.exit_code == 0
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
    path = Path(both.document("sizes.jsonl"))
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    alone, served = both.ask("push", "--stream", "Sizes", str(path), "--json")
    assert served.stderr == alone.stderr != ""
    assert alone.exit_code == served.exit_code == 0
    query = "SELECT id, timestamp FROM documents WHERE id LIKE 'sized-%' ORDER BY id"
    one, other = both.ask("sql", query, "--json")
    assert one.stdout == other.stdout
    assert one.stdout.count("sized-") == len(times), one.output


def test_streams_are_set_and_what_is_left_out_stays(both: Both) -> None:
    for options, told in (
        (["--lateness", "1.5 h"], "lateness 90 min, not live"),
        (["--live"], "lateness 90 min, live"),
        (["--lateness", "7 ms"], "lateness 7 ms, live"),
        (["--not-live"], "lateness 7 ms, not live"),
    ):
        for done in both.ask("stream", "set", "orders", *options):
            assert (done.stdout, done.stderr) == (f"orders: {told}\n", "")
    for done in both.ask("stream", "list", "--json"):
        assert {"name": "orders", "lateness": 0.007, "live": False, "documents": 0} in json_rows(
            done.stdout
        )
    for done in both.ask("subscribe", "absent", "orders//a NOT FOLLOWED BY{1 h} orders//b"):
        assert "'orders' is not live; if documents arrive as they happen," in done.stderr
        assert "'xscl stream set orders --live'" in done.stderr
    for done in both.ask("stream", "set", "orders", "--lateness", "1 d", "--live"):
        assert (done.exit_code, done.stdout) == (1, "")
        assert "the lateness of 'orders' cannot change while subscriptions read it" in done.stderr
        assert "hint: set it before the first subscription" in done.stderr
    for done in both.ask("stream", "set", "orders", "--live", "--json"):
        assert json.loads(done.stdout) == {"name": "orders", "lateness": 0.007, "live": True}
    for done in both.ask("unsubscribe", "absent"):
        assert done.exit_code == 0


def test_late_documents_are_counted(both: Both) -> None:
    """Only those of this push, and only once; an absence is late at once, a join by its window."""
    for name, query in (
        ("silence", "Y//a NOT FOLLOWED BY{1 h} Y//b"),
        ("soon", "Y//a->x JOIN{x=y, 1 h} Y//a->y"),
    ):
        for done in both.ask("subscribe", name, query, "--from-now"):
            assert done.exit_code == 0, done.output
    path = Path(both.document("late.jsonl"))
    counts = []
    for name, day in (("y1", 10), ("y2", 2), ("y2", 2), ("y3", 1), ("y4", 20)):
        row = {"id": name, "timestamp": f"2025-03-{day:02}", "xml": f"<a>{name}</a>"}
        path.write_text(json.dumps(row) + "\n")
        alone, served = both.ask("push", "--stream", "Y", str(path), "--json")
        assert served.stderr == alone.stderr
        late = [json.loads(done.stdout)["late"] for done in (alone, served)]
        assert late[0] == late[1]
        assert ("1 came too late" in served.stderr) is False
        counts.append(late[0])
    assert counts == [0, 1, 0, 1, 0]
    path.write_text(json.dumps({**row, "id": "y5", "timestamp": "2025-03-03"}) + "\n")
    for done in both.ask("push", "--stream", "Y", str(path)):
        assert done.stderr.startswith("xscl: 1 came too late for some subscription: xscl sql")
    with httpx.Client(base_url=both.address, trust_env=False) as client:
        arrived = [one["id"] for one in client.get("/v1/late").json()]
    assert arrived == ["y5", "y3", "y2"], "the last one to arrive is the first"
    for query in ("Y//a NOT FOLLOWED BY{1 h} Y//b", "soon"):
        for done in both.ask("try", query):
            assert "xscl: 3 documents were too late for this query (lateness 0 s)\n" in done.stderr


def test_what_cannot_be_read_is_a_row_of_rejected_once(both: Both) -> None:
    """The command or the service may detect the malformed document."""
    for name, text in (
        ("broken.xml", "<a><b></a>"),
        ("lines.jsonl", '{"xml": "<a/>", "id": "fine"}\n{"xml": "<a", "id": "half"}\n{"xml": 7\n'),
    ):
        Path(both.document(name)).write_text(text)
    paths = [both.document(name) for name in ("broken.xml", "lines.jsonl")]
    shown = "SELECT id, reason, message, beginning FROM rejected WHERE stream = 'R' ORDER BY ALL"
    for _ in range(2):
        alone, served = both.ask("push", "--stream", "R", *paths)
        assert (alone.exit_code, served.exit_code) == (1, 1), served.output
        assert served.stderr == alone.stderr
        assert "1 document, sent; 3 not read" in served.stdout
        alone, served = both.ask("sql", shown, "--json")
        assert served.stdout == alone.stdout
    rows = json_rows(alone.stdout)
    assert sorted(row["beginning"] for row in rows) == ["<a", "<a><b></a>", '{"xml": 7\n']


def test_a_malformed_document_may_be_refused_for_another_reason(
    both: Both, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path(both.document("broken.xml")).write_text("<a><b></a>")
    ask = OpenedService.ask

    def refuse(service: OpenedService, method: str, path: str, **request: Any) -> httpx.Response:
        if method == "POST":
            raise Refused(429, "busy", "too many documents wait")
        return ask(service, method, path, **request)

    monkeypatch.setattr(OpenedService, "ask", refuse)
    said = both.served_fails(1, "push", "--stream", "R", both.document("broken.xml"))
    assert "not read" in said
    assert "too many documents wait" in said


def test_registrations_are_exported_while_the_service_runs(both: Both, tmp_path: Path) -> None:
    done = called("export", str(tmp_path / "alone.json"), "--data", str(both.alone))
    assert done.exit_code == 0, done.output
    both.served_says("export", str(tmp_path / "served.json"))
    alone, served = (
        json.loads((tmp_path / f"{name}.json").read_text()) for name in ("alone", "served")
    )
    for exported in (alone, served):  # other tests add to both
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
        alone = called(*command, "--json", "--data", str(both.alone))
        assert alone.exit_code == 0, alone.output
    assert {one["kind"] for one in json_rows(alone.stdout)} == {one["kind"] for one in exported}
    told = failed(2, "subscribe", "s", "nowhere//a", *asked)
    assert "there is no stream 'nowhere'\n  nowhere//a\n  ^\n" in told
    assert "for its operator" in called("status", *asked).stderr
    assert called("token", "revoke", made["id"], "--data", str(both.served)).exit_code == 0
    gone = called("subscriptions", *asked)
    assert gone.exit_code == 1
    assert gone.stderr == (
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
        with pytest.MonkeyPatch.context() as patch:
            for name, value in environment.items():
                patch.setenv(name, value)
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
    assert (alone.exit_code, alone.stderr) == (
        0,
        f"xscl: warning: no service runs on {both.alone}, so a token has no effect:"
        " this is done as the operator\n",
    )
    assert served.exit_code in (1, 2)


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--url", "http://127.0.0.1:9"], 1, "does not answer"),
        (["--url", "127.0.0.1:8425"], 2, "is no address of a service"),
        (["--url", "http://a:b@127.0.0.1"], 2, "do not belong into the address"),
        (["--url", "http://127.0.0.1:9", "--token", "@nix"], 2, "the token in nix"),
    ],
)
def test_services_named_wrongly(arguments: list[str], code: int, message: str) -> None:
    assert message in failed(code, "subscriptions", *arguments)


def test_a_service_that_accepts_and_does_not_answer_is_busy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    settings = async_client.settings
    monkeypatch.setattr(
        async_client, "settings", lambda address, token, _: settings(address, token, 0.2)
    )
    with socket.create_server(("127.0.0.1", 0)) as listening:
        done = called("subscriptions", "--url", f"http://127.0.0.1:{listening.getsockname()[1]}")
    assert (done.exit_code, done.stdout) == (1, "")
    assert "sent no answer within" in done.stderr
    assert "it is busy, not stopped" in done.stderr
    assert "running" not in done.stderr


def test_a_service_that_closes_the_connection_has_stopped() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        address = f"http://127.0.0.1:{listening.getsockname()[1]}"
        with beside(lambda: listening.accept()[0].close()):
            done = called("subscriptions", "--url", address)
    assert done.exit_code == 1
    assert "closed the connection" in done.stderr


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
