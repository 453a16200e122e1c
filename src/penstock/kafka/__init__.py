"""Everything that talks to Kafka: fetch, produce, admin, group membership, the development broker."""
