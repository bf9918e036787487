"""Changes of the cells of a cluster: `/v1/cluster`, for the operator."""

from __future__ import annotations

from fastapi import APIRouter
from pydantic import Field

from xscl.cluster.driver import ClusterDriver
from xscl.engine.state import Role
from xscl.service.bodies import JsonBody, RequestBody
from xscl.service.dependencies import Here, TheOperator
from xscl.service.installation import Installation
from xscl.service.problems import Problem

router = APIRouter(prefix="/cluster", tags=["cluster"])


class OneCell(RequestBody):
    """A cell."""

    cell: int = Field(ge=0, lt=1 << 31, examples=[3])
    """Its number."""


class TwoCells(OneCell):
    """A cell that ends, and the one that takes its subscriptions."""

    into: int = Field(ge=0, lt=1 << 31, examples=[0])
    """Number of the cell that takes them."""


class Node(RequestBody):
    """A machine with executors."""

    node: str = Field(min_length=1, max_length=255, examples=["worker-3"])
    """Its name, as the status of the cells shows it."""


class Changed(JsonBody):
    """The cells after a change."""

    cells: list[int] = Field(examples=[[0, 1, 2, 3, 4]])
    """Numbers of all cells."""
    changed: list[int] = Field(examples=[[4]])
    """Numbers of the cells that were made anew."""


@router.post("/split", summary="Split a cell")
def split(here: Here, _: TheOperator, asked: OneCell) -> Changed:
    """Moves half of the subscriptions of a cell to a new one; no match is lost or doubled.

    The next batch waits for it.
    """
    driver = _driver(here)
    new = driver.split(asked.cell)
    return Changed(cells=list(driver.cells), changed=[new])


@router.post("/merge", summary="Merge a cell into another one")
def merge(here: Here, _: TheOperator, asked: TwoCells) -> Changed:
    """Moves all subscriptions of a cell to another one, which reads the kept documents for them.

    Refused for a subscription whose state depends on documents that are not kept.
    """
    driver = _driver(here)
    driver.merge(asked.into, asked.cell)
    return Changed(cells=list(driver.cells), changed=[asked.into])


@router.post("/move", summary="Move a cell to another executor")
def move(here: Here, _: TheOperator, asked: OneCell) -> Changed:
    """Makes a cell anew on another executor, from a snapshot of now."""
    driver = _driver(here)
    driver.move(asked.cell)
    return Changed(cells=list(driver.cells), changed=[asked.cell])


@router.post("/drain", summary="Move all cells off a machine")
def drain(here: Here, _: TheOperator, asked: Node) -> Changed:
    """Makes all cells of a machine anew on executors elsewhere."""
    driver = _driver(here)
    moved = driver.drain(asked.node)
    return Changed(cells=list(driver.cells), changed=moved)


def _driver(here: Installation) -> ClusterDriver:
    """Return the driver of the cells; raises Problem if there is none, or not yet."""
    driver = here.cluster()
    if driver is not None:
        return driver
    if here.engine.host.transactions.settings.role is Role.DRIVER:
        raise Problem(
            "cluster_starting", "the cells are starting", hint="try again in some seconds"
        )
    raise Problem(
        "no_cluster",
        "the service has no cells",
        hint="it evaluates itself; 'xscl serve --shared DIR' makes it a cluster",
    )
