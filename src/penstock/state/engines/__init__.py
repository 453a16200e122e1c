"""Byte-level stores: what keeps the bytes, in RocksDB or in memory."""
