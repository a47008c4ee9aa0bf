"""`cluster`: what the metadata of a KRaft cluster says, at any offset or time."""
