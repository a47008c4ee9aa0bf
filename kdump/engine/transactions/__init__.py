"""`transactions`: what `__transaction_state` comes to, and what is open in the logs beside it."""
