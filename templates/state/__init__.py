"""The join state: R_bin and R_doc, as much in memory as fits; value joins of a batch; expiry."""
