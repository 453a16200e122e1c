"""Kafka clients and protocols: fetch, produce, administration, group membership, the development broker."""
