"""`timeline`: what happened, in one order, over all brokers."""
