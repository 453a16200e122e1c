"""What an application tells of itself: Kafka Streams' metrics, and Prometheus' text of them."""
