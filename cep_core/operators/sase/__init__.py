"""M-ops of sequence scans, as in SASE."""
