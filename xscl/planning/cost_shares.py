"""The share of each subscription in the time of the plan.

The time of a node is divided equally among those who share it: that of an m-op among its operators,
and that of an operator among the subscriptions that use it.  A scan has one operator for each
stream; its time is divided by their documents first.  So the shares of all subscriptions add up
to 1.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

from cep_core.plan import MOp, Operator
from xscl.documents.results import Subscription
from xscl.planning.plan_graph import SCAN, TimeSpent
from xscl.planning.planned_subscriptions import PlannedSubscriptions


class CostShares:
    """Shares of subscriptions in the time `spent`; `documents` counts those of each stream."""

    def __init__(
        self, subscribed: PlannedSubscriptions, spent: TimeSpent, documents: Mapping[str, int]
    ) -> None:
        self._subscribed = subscribed
        self._spent = spent
        self._documents = documents
        self._scanned: dict[MOp, int] = {}

    @cached_property
    def _total(self) -> float:
        return sum(self._spent.by_name().values())

    def of(self, subscription: Subscription) -> float:
        """Return the share of a subscription, from 0 to 1; 0 if nothing took time yet."""
        subscribed, templates = self._subscribed, self._spent.templates
        if not self._total:
            return 0.0
        seconds = sum(
            self._seconds(operator) / subscribed.users[operator]
            for operator in subscribed.operators(subscription)
        )
        for number in subscribed.templates(subscription):
            seconds += templates.get(number, 0.0) / subscribed.template_users[number]
        return seconds / self._total

    def _seconds(self, operator: Operator) -> float:
        mop = operator.mop
        assert mop is not None
        spent = self._spent.mops.get(mop.label, 0.0)
        if mop.kind != SCAN:
            return spent / len(mop.operators)
        if mop not in self._scanned:
            self._scanned[mop] = sum(map(self._arrived, mop.operators))
        return spent * self._arrived(operator) / self._scanned[mop] if self._scanned[mop] else 0.0

    def _arrived(self, scan: Operator) -> int:
        """Return the number of documents that a scan has read."""
        return self._documents.get(str(scan.wanted.inputs[0].wanted.definition), 0)
