"""Hypothesis as all tests take it: no limit in seconds, and but for long runs the same examples."""

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from long_runs import LONG

__all__ = ("given", "settings", "st")

settings.register_profile(
    "kdump",
    deadline=None,
    derandomize=not LONG,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.load_profile("kdump")
