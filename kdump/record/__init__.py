"""Bytes -> frames -> batches -> records. Knows nothing of files.

A log file is a row of entries. Every entry since 0.8 starts with the same 17 bytes, so that its
size and its format can be read before anyone knows which format it is:

    position  bytes  field
    0         8      offset (v2: base offset; before: the offset of the last message inside)
    8         4      size, counted from byte 12
    12        4      v2: partition leader epoch; before: CRC-32
    16        1      magic: 0, 1 or 2

What follows is in `layout`. Entries of 0.6 and 0.7 have no stored offset; see `pre08`.
Decoding is done by the kernels, into columns of positions; this package says which bytes to hand
them, opens what is compressed, and gives single things names.
"""
