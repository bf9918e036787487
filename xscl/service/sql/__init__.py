"""Sandboxed SQL for users: one SELECT over a snapshot of visible rows, in a separate process.

    query ──UserSql──▶ slot, snapshot ──fork server──▶ child: checks, runs, writes ──▶ result

DuckDB cannot limit a hostile query within the process that has the store.  Each query therefore
runs in a process of its own.  That process has only a snapshot: Arrow tables with the rows that the
user may see (`snapshot`).  `fork_server` has imported everything and forks the children.  A `child`
sets its own limits, verifies that the query is one SELECT over public relations, and writes rows
by `formats`.  `sql_service` is the service's side: children do without it, and without the engine.
"""
