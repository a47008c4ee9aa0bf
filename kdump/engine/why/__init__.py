"""`why`: why a disk is as full as it is, by the broker's own rules."""
