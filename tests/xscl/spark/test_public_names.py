"""The names of `xscl.spark`: loaded when they are asked for."""

import subprocess
import sys

import pytest

import xscl.spark


def test_all_names_can_be_loaded() -> None:
    pytest.importorskip("pandas", reason="the extra xscl[spark] is not installed")
    assert {name for name in xscl.spark.__all__ if not callable(getattr(xscl.spark, name))} == set()
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        xscl.spark.nothing  # noqa: B018  # it raises


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
