"""The assignors of Kafka's clients and brokers: who gets which partitions of which members (G8)."""
