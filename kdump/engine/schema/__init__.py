"""Every kind of row that commands write, and what it has."""
