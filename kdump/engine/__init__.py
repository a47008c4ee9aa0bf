"""Questions asked of storage: pure functions and iterators over rows and findings."""
