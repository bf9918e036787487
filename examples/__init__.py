"""Programs that use the package, run and type-checked by the tests."""
