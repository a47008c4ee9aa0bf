"""The tables of rows: a module for each of `kdump/rows` whose rows have their own."""
