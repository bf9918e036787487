"""The SQL of the stored tables: a module for each table, or for a few that belong together.

Functions take the store first, and take and return values of Python, or Arrow tables.
"""
