"""One report of everything: what other commands find, and the evidence that they read."""
