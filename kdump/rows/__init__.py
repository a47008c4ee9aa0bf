"""The rows of every command, each kind declared once; `declarations.py` reads what they declare."""
