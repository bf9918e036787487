"""M-ops of NEXT CEP's patterns."""
