"""The reason in an error report of Spark."""

from __future__ import annotations

NO_ANSWER = "Spark's master does not answer"
"""The reason if Spark has stopped itself, as it does when no master answers for a minute."""


_STOPPED = ("on a stopped SparkContext", "SparkContext._taskScheduler()")
"""Signs of that in reports: of a call, and of one that began before."""


def reason_of(failure: Exception) -> str:
    """Return the decisive line of Spark's error report.

    It is the last line of the last Python traceback, otherwise the first line.
    """
    # The text of a Py4JJavaError is Java's stack trace.
    report = str(getattr(failure, "java_exception", failure))
    traceback = report.rpartition("Traceback (most recent call last):")[2]
    if any(sign in report for sign in _STOPPED):
        return NO_ANSWER
    lines = [line for line in traceback.splitlines() if line and not line.startswith(" ")]
    return lines[0] if lines else report
