"""The fields of the requests of streams groups (KIP-1071), as Kafka 4.2 defines them, in kafka-python's form."""
