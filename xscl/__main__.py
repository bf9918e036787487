"""The entry point of the command line: `xscl` and `python -m xscl`.

With `-m` Python puts the working directory at the front of the module search path, where a folder
such as `templates` or `feeds` would shadow the package of that name here (docs/decisions/cli.md).
"""

from __future__ import annotations

import sys
from pathlib import Path

from xscl.origins import refuse_shadowed


def main() -> None:
    """Run the command line without the working directory on the module search path."""
    first, source = Path(sys.path[0]).resolve(), Path(__file__).resolve().parents[1]
    if not sys.flags.safe_path and first == Path.cwd() != source:
        del sys.path[0]
    try:
        refuse_shadowed()
    except ImportError as error:
        sys.exit(f"xscl: {error}")
    # What it imports depends on the search path.
    from xscl import cli

    cli.main()


if __name__ == "__main__":
    main()
