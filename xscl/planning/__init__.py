"""From the normal form to m-ops of the one plan."""
