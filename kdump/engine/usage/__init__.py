"""`usage`: what takes up the bytes of logs."""
