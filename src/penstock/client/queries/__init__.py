"""Queries of a running application: its own state, and where the rest of it is."""
