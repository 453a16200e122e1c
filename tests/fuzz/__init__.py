"""Mutated bytes for every parser of bytes from outside, for as long as wanted: `python -m tests.fuzz --minutes 10`."""
