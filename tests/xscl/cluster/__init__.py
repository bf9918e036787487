"""Tests of cells: the cluster equals the single engine."""
