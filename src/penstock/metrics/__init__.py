"""What is counted and measured, under Kafka Streams' names."""
