"""Measured beside Kafka Streams (Java), on the same broker and the same topics."""
