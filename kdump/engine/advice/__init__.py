"""Advice: where a consumer that meets damage can go on, as a broker serves it."""
