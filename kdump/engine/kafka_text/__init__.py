"""`dump --format kafka`: the text of the broker's own tool."""
