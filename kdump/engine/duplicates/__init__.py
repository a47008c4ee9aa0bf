"""`duplicates`: records that say the same, whoever sent them."""
