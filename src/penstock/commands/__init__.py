"""The commands of `penstock`, one a file; each imports Spark and the Kafka clients only when it runs."""
