"""Reads of live state: across processes, and as tables of Spark."""
