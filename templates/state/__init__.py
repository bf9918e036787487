"""The join state: R_bin and R_doc in memory, the view cache, value joins, expiry."""
