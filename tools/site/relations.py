"""Relations of SQL with the columns that an engine says they have."""

from __future__ import annotations

import xscl
from tools.site.tables import table
from xscl.store.queries.relations import PUBLIC
from xscl.store.queries.relations import meaning as column_meaning

EXAMPLE = "S//a[./x->x] FOLLOWED BY{x = y, 1 d} S//b[./y->y]"
"""A subscription, so that there is a template with its relations."""
TEMPLATES = {
    "R_T_1": "the joins of template 1: variables, operator and window in microseconds",
    "R_out_1": "what the joins of template 1 found in the last push",
}


def relations() -> str:
    """Return each relation with its meaning and its columns."""
    parts = []
    with xscl.Engine() as engine:
        engine.subscribe("example", EXAMPLE)
        for name, meaning in {**PUBLIC, **TEMPLATES}.items():
            described = engine.sql(f"FROM {name} LIMIT 0").schema
            columns = (
                (f"`{one.name}`", str(one.type), column_meaning(name, one.name))
                for one in described
            )
            parts.append(f"## {name}\n\n{meaning[0].upper()}{meaning[1:]}.\n")
            parts.append(table(("column", "Arrow type", "meaning"), columns))
    return "\n".join(parts)
