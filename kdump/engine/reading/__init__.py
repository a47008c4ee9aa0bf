"""Read logs from front to back: segments, ranges, damage, and the files beside them."""
