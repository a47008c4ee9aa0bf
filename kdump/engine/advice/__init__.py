"""Advice: what a consumer that meets damage can do, as a broker serves it."""
