"""Reads of live state, in other processes and as Spark tables."""
