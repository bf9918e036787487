"""Mutation tests with a fixed list of faults: each one must make the tests that it names fail.

faults    the list: a textual change of one module, and the tests that catch it
trial     a copy of the project in which one fault after the other is planted
__main__  the program: `python -m tests.planted_faults [--only NAME]`

The list says what the suite is able to find.  Whoever removes, merges or shortens tests runs it
before and after: a fault that is not caught any more is a hole in the suite.
"""
