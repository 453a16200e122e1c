"""What tests with a real broker and Spark share."""
