"""Reading committed state beside the tasks that own it; no Spark, no Kafka."""
