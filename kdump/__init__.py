"""kdump reads Kafka data directories as they lie on disk, sound or damaged, and never changes them.

Data flows one way: bytes, frames, batches, records (`record`); files, segments, partitions, data
directories (`storage`); questions asked of them (`engine`); rows and findings made visible
(`output`); the command line (`cli`). Nothing is imported here, so that each start pays only for
what it uses.
"""

__version__ = "0.1.0"
