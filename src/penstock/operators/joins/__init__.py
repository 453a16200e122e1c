"""Joins of streams and tables, one kind a file."""
