"""Output over time while instances come, go and die: penstock beside Kafka Streams, with the defaults of each."""
