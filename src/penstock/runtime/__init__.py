"""The task runtime: StreamTask and what it is made of. Knows neither Spark nor Kafka."""
