"""`info`: what lies here, which release wrote it, and what to ask next."""
