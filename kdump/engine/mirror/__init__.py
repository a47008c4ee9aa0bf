"""`compare --mirror`: the same records at other offsets, in another cluster."""
