"""Figures for Prometheus: `GET /v1/metrics`."""

from __future__ import annotations

from fastapi import APIRouter, Response

from xscl.service.dependencies import Here, TheOperator
from xscl.service.metrics import CONTENT_TYPE

router = APIRouter(tags=["state"])


@router.get("/metrics", summary="Show figures for Prometheus", response_class=Response)
def metrics(here: Here, who: TheOperator) -> Response:
    """Shows counters, gauges and histograms in the text format of Prometheus, to the operator."""
    with here.reading() as store:
        return Response(here.metrics.text(store), media_type=CONTENT_TYPE)
