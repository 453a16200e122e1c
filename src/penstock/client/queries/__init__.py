"""Queries of a running application: local state, and the location of remote state."""
