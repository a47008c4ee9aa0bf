"""Findings and rows: what kdump says of a data directory, before anyone prints it."""
