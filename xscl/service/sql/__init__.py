"""SQL for users: one SELECT over a snapshot of what they may see, in a process that can be killed.

    question ──UserSql──▶ slot, snapshot ──nursery──▶ child: checks, runs, writes ──▶ answer

DuckDB cannot bound a hostile query within the process that has the store.  So a question is
answered in a process of its own, which has nothing but a snapshot: Arrow tables with the rows
that its asker may see (`snapshot`).  `nursery` is a process that has loaded everything and forks
the children; `child` sets its own limits, asks `check` whether the question is one SELECT over
public relations, and writes rows as `formats` has them.  `asking` is the service's side.
"""

from xscl.service.sql.limits import Answer, Form, Limits
from xscl.service.sql.sql_service import UserSql
from xscl.service.sql.viewer import OPERATOR, Viewer

__all__ = ["OPERATOR", "Answer", "Form", "Limits", "UserSql", "Viewer"]
