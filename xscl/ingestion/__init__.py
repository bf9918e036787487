"""From the spool to the engine: directly, or with stage 1 on Spark."""
