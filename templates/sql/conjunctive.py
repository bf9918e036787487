"""Conjunctive queries as SQL (Hong 2009, section 6.4.4).

The order and window of section 6.4.4's Algorithm 3 are part of the query, so
that the database discards rows that do not satisfy them.
"""

from __future__ import annotations

from collections.abc import Mapping

from templates.model.conjunctive_query import ConjunctiveQuery, in_time_sql


def select(query: ConjunctiveQuery, r_t: str, times: Mapping[str, str] | None = None) -> str:
    """Return a query as SQL; `r_t` is the table of R_T.

    `times` are expressions in place of the variables `MEASURES`.
    """
    held: dict[str, str] = {}  # the column that binds each variable: the first one
    conditions = []
    for atom in query.atoms:
        if atom.key is not None:
            conditions.append(f"{atom.alias}.{atom.key[0]} = t.{atom.key[1]}")
        for column, variable in atom.binds:
            named = f"{atom.alias}.{column}"
            if held.setdefault(variable, named) != named:
                conditions.append(f"{named} = {held[variable]}")
    conditions += [f"{held[left]} {sign} {held[right]}" for sign, left, right in query.compared]
    if query.timed:
        conditions.append(in_time_sql(times or held, "t"))
    head = ", ".join(f"{held[variable]} AS {variable}" for variable in query.head)
    tables = " CROSS JOIN ".join(f"{atom.relation} AS {atom.alias}" for atom in query.atoms)
    return (
        f"SELECT t.qid, {head}, t.wl FROM {r_t} AS t CROSS JOIN {tables}"
        f" WHERE {' AND '.join(conditions)}"
    )
