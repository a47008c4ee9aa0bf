"""`compare`: what the replicas of a partition have in common, and where they differ."""
