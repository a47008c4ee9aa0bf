"""The compiled kernel; `_pure` says what each function means."""

from kdump.kernels._pure import *  # noqa: F403

CRC_VARIANT: str
COMPILED_FORMATS: list[dict[str, int]]
