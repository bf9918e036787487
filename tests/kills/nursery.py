"""The parent of forked victims, with everything loaded and all queries compiled once.

Imported by the process that they are forked from, and by nobody else.  It must not start threads,
which would not be there after a fork: hence it opens no database.
"""

import tests.kills.processes  # noqa: F401
from feeds.http.connection import _trusted
from tests.kills.workload import SUBSCRIPTIONS
from xscl.planning.compile import compile_query

for _, query in SUBSCRIPTIONS:
    compile_query(query)
_trusted()
