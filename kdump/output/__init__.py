"""Write rows and findings as text, tables or files.

Sinks take the engine's items one by one and hold no more than one piece of output at a time. Rich
and PyArrow are imported inside the functions that need them.
"""
