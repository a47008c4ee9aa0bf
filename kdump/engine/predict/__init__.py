"""`predict`: what the next start of a broker would do to each partition."""
