"""The commands of `penstock`, one per file. A command imports Spark and Kafka clients only when it runs."""
