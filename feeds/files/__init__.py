"""Documents from files, directories and archives."""
