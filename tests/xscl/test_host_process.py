"""A process that uses the library keeps its settings, and ends without a line of another."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.project import LEAN, python

SETTINGS = """
import decimal, faulthandler, gc, json, locale, logging, mimetypes, multiprocessing, os, random
import resource, signal, socket, sys, threading, time, warnings

import pyarrow  # its pools are its own: what an engine sets is compared


def settings():
    mask = os.umask(0)
    os.umask(mask)
    limits = [name for name in dir(resource) if name.startswith("RLIMIT_")]
    handlers = {one.name: str(signal.getsignal(one)) for one in signal.Signals}
    context = decimal.getcontext()
    return {
        "collection": [gc.isenabled(), gc.get_threshold(), gc.get_freeze_count(), gc.get_debug()],
        "locale": [locale.setlocale(locale.LC_ALL), os.environ.get("LC_ALL")],
        "signals": [handlers, signal.getitimer(signal.ITIMER_REAL), signal.set_wakeup_fd(-1)],
        "logging": [
            str(logging.root.handlers), logging.root.level, logging.root.manager.disable,
            str(logging.lastResort), logging.getLogger("xscl").level,
        ],
        "warnings": list(map(str, warnings.filters)),
        "faulthandler": faulthandler.is_enabled(),
        "start method": multiprocessing.get_start_method(allow_none=True),
        "umask": mask,
        "limits": {name: resource.getrlimit(getattr(resource, name)) for name in limits},
        "nice": os.nice(0),
        "interpreter": [
            sys.getrecursionlimit(), sys.getswitchinterval(), sys.get_int_max_str_digits(),
            sys.gettrace() is None, sys.getprofile() is None, sys.flags.dev_mode,
        ],
        "hooks": [
            str(one) for one in (
                sys.excepthook, sys.unraisablehook, sys.displayhook, threading.excepthook,
                sys.stdin, sys.stdout, sys.stderr,
            )
        ],
        "path": [os.getcwd(), sys.path, sys.argv],
        "environment": dict(os.environ),
        "zone": time.tzname,
        "pools": [
            pyarrow.cpu_count(), pyarrow.io_thread_count(),
            pyarrow.default_memory_pool().backend_name,
        ],
        "decimals": [str(context), str(decimal.DefaultContext)],
        "sockets": socket.getdefaulttimeout(),
        "types": [mimetypes.inited, len(mimetypes.types_map)],
        "random": hash(random.getstate()),
        "threads": sorted(one.name for one in threading.enumerate()),
        "stack": threading.stack_size(),
    }


mimetypes.init()
before = settings()
seen = []  # while something is pushed and registered


def look(matches):
    seen.append([gc.isenabled(), sys.getswitchinterval(), gc.get_freeze_count()])


import xscl

queries = (
    f"S//a[./k='{i}'][./t->x] FOLLOWED BY{{x=y, 1 h}} S//b[./t->y]" for i in range(1_100)
)
path = sys.argv[1] or None
engine = xscl.Engine(path)
engine.subscribe_many((f"s{i}", query) for i, query in enumerate(queries))
engine.subscribe("xpath", "S//a[string-length(t) > 2 and matches(t, '[a-z]+')]->x")

engine.push([xscl.Document("S", "d", 1, b"<a><k>1</k><t>abc</t></a>")], listen=look)
engine.push([xscl.Document("S", "e", 2, b"<b><t>abc</t></b>")], listen=look)
engine.push([xscl.Document("S", str(i), 2, b"<b><t>abc</t></b>") for i in range(300)], listen=look)
assert seen and len(engine.matches("s1")) > 0
engine.sql("SELECT name FROM subscriptions").num_rows
if sys.argv[2] == "closed":
    engine.close()
after = settings()
changed = {name: [before[name], after[name]] for name in before if before[name] != after[name]}
print(json.dumps(changed))
print(json.dumps([one for one in seen if one != [True, before["interpreter"][1], 0]]))
"""


@pytest.mark.parametrize(("place", "ends"), [("memory", "left"), ("file", "closed")])
def test_an_engine_leaves_its_host_alone(place: str, ends: str, tmp_path: Path) -> None:
    """Settings of the process are as they were, before it is closed too; nothing is reported."""
    path = "" if place == "memory" else str(tmp_path / "state.sqlite")
    ran = python("-c", SETTINGS, path, ends)
    assert ran.stdout.splitlines() == ["{}", "[]"]
    assert (ran.stderr, ran.returncode) == ("", 0)


OWNED = f"""{LEAN}
import gc, xscl

engine = xscl.Engine(owns_process=True)
engine.subscribe_many((f"s{{i}}", f"S//a[./k='{{i}}']->x") for i in range(1_100))
assert gc.get_freeze_count() > 10_000
engine.push([xscl.Document("S", "d", 1, b"<a><k>1</k></a>")])
assert gc.isenabled()
"""


def test_an_engine_that_owns_its_process_freezes_and_ends_silently() -> None:
    ran = python("-c", OWNED)
    assert (ran.stdout, ran.stderr, ran.returncode) == ("", "", 0)


FAILED = f"""{LEAN}
import xscl

engine = xscl.Engine()
engine.subscribe("q", "S//a->x")
result = engine.push([xscl.Document("S", "d", 1, b"<a>1</a>")])
raise SystemExit(engine.matches("q")[0].documents[0])
"""


def test_an_engine_that_an_exception_leaves_behind_ends_silently() -> None:
    assert python("-c", FAILED).stderr == "d\n"


ONE_TEST = """
import xscl

ENGINE = xscl.Engine()


def test_it() -> None:
    ENGINE.subscribe("q", "S//a->x")
"""


def test_a_run_of_tests_ends_with_its_summary(tmp_path: Path) -> None:
    """DuckDB lists what the interpreter leaves behind: collections are not frozen at the end."""
    (tmp_path / "test_one.py").write_text(ONE_TEST)
    options = ("-q", "-p", "no:cacheprovider", "-p", "tests.conftest", "--rootdir", tmp_path)
    ran = python("-m", "pytest", *options, tmp_path)
    assert "1 passed" in ran.stdout.splitlines()[-1]
    assert ran.stderr == ""
