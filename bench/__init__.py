"""penstock measured beside Kafka Streams (Java), on the same broker and the same topics; `python -m bench --help`."""
