"""The m-ops: how the operators of the algebra are computed, many at once."""
