"""The rows of every command, each kind declared once; `declared.py` reads what they declare."""
