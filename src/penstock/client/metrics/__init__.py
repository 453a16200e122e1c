"""Metrics of an application: Kafka Streams' metrics and Prometheus' text format."""
