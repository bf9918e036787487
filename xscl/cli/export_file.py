"""`xscl export`, and `xscl import` of its files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer

from xscl.cli.options import DATA, Call, Data, Json, Place, home, option
from xscl.cli.output import UsageError, answer, warn
from xscl.cli.service import refuse_token, running_service
from xscl.plurals import counted
from xscl.service import registrations
from xscl.service.registrations import read_export, register


def export(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The file to write.")],
    backup: Annotated[
        Path | None, option("--backup", "The store of this backup, in place of DIR's.", "FILE")
    ] = None,
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
    """Yield a backup by the service that has a data directory open, None if none has."""
    service = running_service(Place(data=data))
    if service is None:
        yield None
        return
    with service, TemporaryDirectory(prefix=".export-", dir=beside) as place:
        backup = Path(place) / "backup.xscl"
        service.backup(backup)
        yield backup


def import_registrations(call: Call, content: bytes) -> None:
    """Register the content of an export in a data directory."""
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
