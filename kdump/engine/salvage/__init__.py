"""Rebuild a partition from damaged, deleted, and diverged copies."""
