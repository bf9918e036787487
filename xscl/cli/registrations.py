"""`xscl import`: many subscriptions at once, or the file of `xscl export`, which is here, too."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from itertools import groupby, islice
from pathlib import Path
from tempfile import TemporaryDirectory

import typer

from xscl.cli.connection import opened, refuse_token, running_service
from xscl.cli.options import (
    DATA,
    Call,
    Data,
    Json,
    Place,
    argument,
    file_bytes,
    home,
    not_standard,
    option,
)
from xscl.cli.output import UsageError, answer, warn
from xscl.cli.progress import Quiet, progress
from xscl.cli.service import OpenedService
from xscl.client import Refused
from xscl.errors import NameTaken, QueryError, WrongSubscriptionName, XsclError
from xscl.plurals import counted
from xscl.service import registrations
from xscl.service.names import refuse_unaddressable
from xscl.service.registrations import is_export, read_export, register
from xscl.subscriptions.import_rows import ImportRow, RowError, read_import_rows

PART = 2_000
"""Rows that are registered together, all or none."""


def import_(
    call: Call,
    file: Path = argument("CSV or JSON lines; - is standard input.", "FILE"),
    quiet: Quiet = False,
) -> None:
    """Subscribe to all queries of a file: CSV with the columns name,query, or JSON lines.

    A row {"name": ..., "query": ...} may have "updates", "stories" and a list "tags", too. Rows
    that are there already, with the same query, change nothing. All rows are read
    before the first one is registered; 2,000 at a time are, all or none.

    A file of 'xscl export' is registered in a data directory that no service
    runs on: users, subscriptions, feeds and endpoints that are not there yet.

    \b
    Example:
      xscl import subscriptions.csv
    """
    content = file_bytes(file)
    if is_export(content):
        import_registrations(call, content)
        return
    rows = _read(file, content)
    _refuse_names(rows)
    with opened("import", call, missing="create") as service:
        new = _register(service, rows)
    unchanged = len(rows) - new
    answer(
        {"new": new, "unchanged": unchanged},
        [f"{counted(new, 'new subscription')}, {unchanged} there already"],
        as_json=call.as_json,
    )


def _register(service: OpenedService, rows: Sequence[ImportRow]) -> int:
    """Register rows in batches, and return how many are new."""
    new = 0
    for done, part in _parts(rows):
        try:
            new += service.register_all(part)
        except XsclError as error:
            if error.row is None:
                raise
            raise _wrong(done, part, error) from None
    return new


def _read(file: Path, content: bytes) -> list[ImportRow]:
    """Return the rows in the content of a file; raises UsageError."""
    try:
        text = content.decode("utf-8-sig")
        is_csv = file.suffix == ".csv" if file.suffix else not text.lstrip().startswith("{")
        return list(read_import_rows(text, is_csv=is_csv))
    except UnicodeDecodeError as error:
        raise UsageError(f"{file} is not UTF-8 text: byte {error.start + 1} is wrong") from None
    except RowError as error:
        raise UsageError(f"row {error.row}: {error.message}", hint=error.hint) from None


def _refuse_names(rows: Sequence[ImportRow]) -> None:
    seen: dict[str, int] = {}
    for number, row in enumerate(rows, 1):
        try:
            refuse_unaddressable(row.name)
        except WrongSubscriptionName as error:
            raise UsageError(f"row {number}: {error.message}", hint=error.hint) from None
        if row.name in seen:
            raise UsageError(f"row {number}: the name {row.name!r} is in row {seen[row.name]}, too")
        seen[row.name] = number


def _parts(rows: Sequence[ImportRow]) -> Iterator[tuple[int, list[ImportRow]]]:
    """Yield batches of rows to register in one transaction, with the number of rows before each."""
    done = 0
    advancing = progress(rows, "subscribing", len(rows))
    for _, alike in groupby(advancing, key=lambda row: (row.updates, row.stories)):
        while part := list(islice(alike, PART)):
            yield done, part
            done += len(part)


def _wrong(done: int, part: Sequence[ImportRow], error: XsclError) -> XsclError:
    """Return an error with the number of its row in the file, at its place in that row's query."""
    assert error.row is not None
    number = done + error.row
    message = f"row {number}: {error.message}"
    hint = error.hint
    if done:
        hint = f"{hint}; " if hint else ""
        hint += f"the first {done} rows are registered, and change nothing when they come again"
    match error:
        case (
            QueryError(line=int(line), column=int(column))
            | Refused(line=int(line), column=int(column))
        ):
            return QueryError(message, part[error.row - 1].query, line, column, hint)
        case NameTaken():
            return NameTaken(message, hint=hint)
        case _:
            return XsclError(message, hint=hint)


def export(
    file: Path = argument("The file to write.", "FILE", callback=not_standard),
    backup: Path | None = option("The store of this backup, in place of DIR's.", "FILE"),
    data: Data = DATA,
    as_json: Json = False,
) -> None:
    """Write users, subscriptions, feeds and endpoints to a file, with secrets.

    'xscl import' registers them in another data directory. The file has headers
    of feeds, secrets of webhooks and hashes of tokens; its owner only can read
    it. Documents and matches are not in it ('xscl backup' writes everything).
    A service that runs goes on meanwhile; it is asked for a backup.

    \b
    Example:
      xscl export registrations.json
    """
    if file.exists():
        raise UsageError(f"{file} is there already", hint="name another file")
    try:
        with ExitStack() as made:
            copy = backup or made.enter_context(_backup_of_service(data, file.absolute().parent))
            written = registrations.export(home(data), file, copy)
    except OSError as error:
        raise UsageError(f"{file} cannot be written: {error.strerror}") from None
    line = f"wrote {file}: {_counted(written.counts)}"
    lost = {"left_out": written.left_out, "without_headers": written.without_headers}
    answer({"file": str(file), **written.counts, **lost}, [line], as_json=as_json)
    for address in written.left_out:
        warn(f"{address} is left out: its address is secret, and secrets.json lacks it")
    for address in written.without_headers:
        warn(f"{address} has lost its headers: secrets.json lacks them")


@contextmanager
def _backup_of_service(data: Path, beside: Path) -> Iterator[Path | None]:
    """Yield a backup, in `beside`, by the service that has `data` open; None without one."""
    service = running_service(Place(data=data))
    if service is None:
        yield None
        return
    with service, TemporaryDirectory(prefix=".export-", dir=beside) as place:
        backup = Path(place) / "backup.xscl"
        service.backup(backup)
        yield backup


def import_registrations(call: Call, content: bytes) -> None:
    """Register the content of an export in a data directory; exit with 1 if some is refused."""
    if call.url is not None:
        raise UsageError(
            "an export is imported into a data directory, not into a running service",
            hint="stop the service, and name its directory with --data",
        )
    refuse_token(call)
    new, refused = register(home(call.data), read_export(content))
    value = {**new, "refused": {one.name: one.error.message for one in refused}}
    answer(value, [f"new: {_counted(new)}"], as_json=call.as_json)
    for one in refused:
        warn(f"subscription {one.name!r}: {one.error.message}", one.error.hint)
    if refused:
        raise typer.Exit(1)


def _counted(numbers: Mapping[str, int]) -> str:
    nouns = ((number, what.removesuffix("s")) for what, number in numbers.items())
    return ", ".join(counted(number, noun) for number, noun in nouns)
