"""`reindex`: what recovery would write in the place of each index, and writing it."""
