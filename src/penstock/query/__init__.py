"""What a query says and what it gets back: plain data, with Kafka Streams' names."""
