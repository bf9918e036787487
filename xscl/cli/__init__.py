"""The command line: `xscl`.

Every command is a function in a module of this package, listed in `commands`; here they become one
program.  Exit codes: 0 done, 1 failed, 2 called wrongly (a query that cannot
be parsed included).  A user's mistake never shows a traceback.

Architecture: language → 1 shredding → 2 templates → 3 cep_core → delivery; feeds, ingestion
(Spark), service and web around it.
"""

from __future__ import annotations

import atexit
import errno
import logging
import os
import sys
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from itertools import pairwise
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from feeds.errors import FeedError
from xscl.cli.commands import lazy_commands
from xscl.cli.output import UsageError, complete_streams, echo, flush_streams, leave_stream, warn
from xscl.cli.settings import config, defaults
from xscl.errors import QueryError, XsclError
from xscl.origins import HiddenModules

__all__ = ["app", "main"]

_TOKEN = "give a token with --token @FILE or XSCL_TOKEN; 'xscl token create' makes one"
_NOT_WRITABLE = "the data directory must be writable for you; --data names another one"


class Commands(TyperGroup):
    """Group of all commands; maps errors to messages and exit codes."""

    def __init__(self, *, commands: dict[str, Any] | None = None, **attributes: Any) -> None:
        super().__init__(commands={**lazy_commands(), **(commands or {})}, **attributes)

    def invoke(self, ctx: Any) -> Any:
        try:
            arguments = [*ctx._protected_args, *ctx.args]
            if not {"-h", "--help"} & set(arguments):
                ctx.default_map = defaults(config(arguments), arguments, self, os.environ)
            answer = super().invoke(ctx)
            sys.stdout.flush()
        except QueryError as error:
            warn(str(error))
            warn_of_reference(arguments)
            raise typer.Exit(2) from None
        except XsclError as error:
            is_unknown = getattr(error, "problem", None) == "unauthorized"
            warn(error.message, _TOKEN if is_unknown else error.hint)
            raise typer.Exit(2 if error.code == UsageError.code else 1) from None
        except FeedError as error:
            warn(str(error))
            raise typer.Exit(1) from None
        except BrokenPipeError:
            leave_stream(sys.stdout)
            raise typer.Exit(0) from None
        except OSError as error:
            where = f"{error.filename}: " if error.filename else ""
            # Before anything else in a data directory, its lock is opened for writing.
            is_data = where.endswith("lock: ") and error.errno in (errno.EACCES, errno.EROFS)
            warn(f"{where}{error.strerror or error}", _NOT_WRITABLE if is_data else None)
            raise typer.Exit(1) from None
        return answer


def warn_of_reference(arguments: Sequence[str]) -> None:
    """Name the help of the language in which a query is wrong."""
    given = [after for one, after in pairwise(arguments) if one == "--language"]
    warn(f"'xscl help {given[-1] if given else 'xscl'}' shows the language")


class WarningHandler(logging.Handler):
    """Log handler that prints warnings of the library on standard error."""

    def emit(self, record: logging.LogRecord) -> None:
        warn(record.getMessage())


logging.getLogger("xscl").addHandler(WarningHandler(logging.WARNING))

app = typer.Typer(
    name="xscl",
    cls=Commands,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _echo_version(wanted: bool) -> None:
    if not wanted:
        return
    try:
        echo(f"xscl {version('xscl')}")
    except PackageNotFoundError:
        echo("xscl, run from its source")
    raise typer.Exit


@app.callback()
def xscl(
    show_version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_echo_version, is_eager=True, help="Show the version and exit."
        ),
    ] = False,
) -> None:
    """Subscriptions that join XML documents and feed items across time."""


def main() -> None:
    """Run the command that the arguments name, and end the process with its exit code.

    The process ends without freeing its memory: with 100,000 subscriptions that would take longer
    than the rest of the end.
    """
    complete_streams()
    sys.meta_path.insert(0, HiddenModules)
    codes: list[int] = []
    atexit.register(_exit, codes)  # registered first, so it is called last
    try:
        app()
    except SystemExit as end:
        code = end.code or 0
        if isinstance(code, int):
            codes.append(code)
        raise
    except OSError as error:  # from output before a command begins
        leave_stream(sys.stdout)
        warn(f"the output is not whole: {error.strerror}")
        codes.append(1)


def _exit(codes: list[int]) -> None:
    """Flush standard output and error, then end the process with the code, if `codes` has one."""
    try:
        flush_streams()
    except BrokenPipeError:
        codes[:] = codes[:1]
    except OSError as error:
        warn(f"the output is not whole: {error.strerror}")
        codes[:] = [1]
    if codes:
        logging.shutdown()
        os._exit(codes[0])
