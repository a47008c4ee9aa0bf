"""Requests and responses in captures of packets, or one after the other in a file."""
