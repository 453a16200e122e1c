"""Rewrites of the graph, one a file."""
