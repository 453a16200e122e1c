"""Batches of records, and what operators declare about them."""
