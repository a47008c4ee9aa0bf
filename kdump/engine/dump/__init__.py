"""`dump`: records, headers, entries or annotated bytes, of any range."""
