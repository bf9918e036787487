"""A clock for the service that is faster than the wall clock, the same in all processes."""

from __future__ import annotations

from dataclasses import dataclass

from xscl.polling.arrival_clock import monotonic
from xscl.polling.feed_repository import ticks


@dataclass(frozen=True, slots=True)
class FastClock:
    """A clock that shows `base` when the monotonic clock shows `began`, both in ticks."""

    base: int
    began: int
    speed: float

    @classmethod
    def starting(cls, speed: float) -> FastClock:
        """Return a clock that agrees with the wall clock now."""
        return cls(ticks(), monotonic(), speed)

    @classmethod
    def read(cls, text: str) -> FastClock:
        """Return the clock of which `str` is the text."""
        base, began, speed = text.split(":")
        return cls(int(base), int(began), float(speed))

    def __str__(self) -> str:
        return f"{self.base}:{self.began}:{self.speed}"

    def __call__(self) -> int:
        """Return the time in ticks."""
        return self.base + int((monotonic() - self.began) * self.speed)
