"""`sequences`: gaps and repeats in the sequence numbers of producers."""
