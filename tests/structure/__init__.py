"""Measurements of the code base's structure: modules that a call passes through, names of classes.

    python -m tests.structure modules    modules that run in a first push and in a first subscribe
    python -m tests.structure names      names of classes that several modules define

Both report; `tests/structure/test_structure.py` holds the bounds.
"""
