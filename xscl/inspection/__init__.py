"""Reading beside the stream: explain, why, replay, backfill, and the SQL relations."""
