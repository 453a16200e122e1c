"""Metrics under Kafka Streams' names."""
