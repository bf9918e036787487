"""Measurements of the code base's structure: modules that a call passes through, lines of code.

    python -m tests.structure modules    modules that run in a first push and in a first subscribe
    python -m tests.structure lines      code, docstring and comment lines of each package

Both report; `tests/structure/test_structure.py` holds the bounds.
"""
