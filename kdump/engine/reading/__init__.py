"""Reading logs from front to back: segments, ranges, damage, the files beside them."""
