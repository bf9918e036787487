"""Stage 1 on Spark: the source over the spool, the session, the tasks, the pipeline."""
