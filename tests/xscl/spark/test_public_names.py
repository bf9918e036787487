"""The names of `xscl.spark`: loaded when they are asked for, and those that are gone."""

import subprocess
import sys

import pytest

import xscl.spark
from xscl.errors import XsclError


def test_all_names_can_be_loaded() -> None:
    pytest.importorskip("pandas", reason="the extra xscl[spark] is not installed")
    assert {name for name in xscl.spark.__all__ if not callable(getattr(xscl.spark, name))} == set()
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        xscl.spark.nothing  # noqa: B018  # it raises


@pytest.mark.parametrize(
    ("name", "replacement"),
    [
        ("consume", "xscl.spark.stream evaluates a stream"),
        ("Consumption", "xscl.spark.stream returns a query"),
        ("join", "xscl.spark.match evaluates a batch"),
        ("register", "xscl.spark.stream writes matches to a sink"),
    ],
)
def test_names_of_0_2_tell_what_replaces_them(name: str, replacement: str) -> None:
    with pytest.raises(XsclError) as raised:
        exec(f"from xscl.spark import {name}")
    assert str(raised.value).startswith(f"xscl.spark.{name} is no longer there: {replacement}")


def test_without_spark_the_names_say_how_to_install_it() -> None:
    program = (
        "import sys; sys.modules['pyspark'] = None\n"
        "import xscl.spark\n"
        "try:\n    xscl.spark.match\nexcept Exception as error:\n"
        "    print(type(error).__name__, error, error.hint)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout == "PipelineError Spark is not installed pip install 'xscl[spark]'\n"
