"""The documentation: pages run as their reader would run them, and references match the program."""
