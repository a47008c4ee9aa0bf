"""`sequences --duplicates-by`: records that say the same, whoever sent them."""
