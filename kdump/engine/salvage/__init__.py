"""Make of damaged, deleted and diverged copies of partitions one that a broker serves."""
