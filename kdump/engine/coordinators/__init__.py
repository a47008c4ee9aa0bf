"""Which partitions of coordinators' topics to replay, their records, and the logs beside them."""
