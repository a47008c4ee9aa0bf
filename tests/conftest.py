"""Fixtures for all tests."""

import importlib
from types import ModuleType

import pytest

from kdump import kernels


@pytest.fixture(params=["pure", "compiled"])
def kernel(request: pytest.FixtureRequest) -> ModuleType:
    """Give each twin in turn; the compiled one only where it was built."""
    if request.param == "compiled":
        try:
            importlib.import_module("kdump.kernels._fast")
        except ImportError:
            pytest.skip("the compiled kernel is not built")
    module, name = kernels.pick(request.param == "pure")
    assert name == request.param
    return module
