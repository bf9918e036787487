"""Value joins by a comparison of texts, found through indexes over the texts of the window."""
