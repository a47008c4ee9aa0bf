"""`dump --hex`: every field of a batch with its position."""
