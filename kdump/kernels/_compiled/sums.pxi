# Checksums, and the allocator's part of bulk work.

cdef extern from "_crc.h" nogil:
    void kd_crc_init()
    uint32_t kd_crc32c(uint32_t crc, const uint8_t *p, size_t n)
    uint32_t kd_crc32(uint32_t crc, const uint8_t *p, size_t n)
    const char *kd_crc_name()


cdef extern from *:
    """
    #if defined(__GLIBC__)
    #include <malloc.h>
    static inline void kd_keep_freed_memory(void)
    {
        mallopt(M_MMAP_THRESHOLD, 32 << 20);
        mallopt(M_TRIM_THRESHOLD, 64 << 20);
    }
    #else
    static inline void kd_keep_freed_memory(void) {}
    #endif
    """
    void kd_keep_freed_memory() nogil


kd_crc_init()
CRC_VARIANT = (<bytes>kd_crc_name()).decode()


def keep_freed_memory():
    """See _pure.keep_freed_memory."""
    kd_keep_freed_memory()


def crc32(object data, Py_ssize_t start, Py_ssize_t end, object crc=0):
    """Return the CRC-32 (IEEE) of `data[start:end]`, continuing from `crc`."""
    cdef Held held = hold(data)
    cdef uint32_t running = crc & 0xFFFFFFFF
    with nogil:
        clamp(&start, &end, held.size)
        running = kd_crc32(running, held.p + start, end - start)
    return running


def crc32c(object data, Py_ssize_t start, Py_ssize_t end, object crc=0):
    """Return the CRC-32C (Castagnoli) of `data[start:end]`, continuing from `crc`."""
    cdef Held held = hold(data)
    cdef uint32_t running = crc & 0xFFFFFFFF
    with nogil:
        clamp(&start, &end, held.size)
        running = kd_crc32c(running, held.p + start, end - start)
    return running


cdef uint32_t[2] POLYNOMIALS = [0xEDB88320, 0x82F63B78]  # bits reflected
cdef uint32_t[2][63] POWERS  # what moves a CRC by 1, 2, 4 ... bytes


cdef uint32_t product(uint32_t a, uint32_t b, uint32_t polynomial) noexcept nogil:
    """Multiply two polynomials over GF(2), bits reflected, modulo a third."""
    cdef uint32_t result = 0
    while a:
        if a >> 31:
            result ^= b
        a <<= 1
        b = (b >> 1) ^ (polynomial & (0 - (b & 1)))
    return result


cdef void fill_powers() noexcept nogil:
    cdef int which, i
    for which in range(2):
        POWERS[which][0] = 1 << 23
        for i in range(1, 63):
            POWERS[which][i] = product(
                POWERS[which][i - 1], POWERS[which][i - 1], POLYNOMIALS[which]
            )


fill_powers()


cdef uint32_t moved(uint32_t crc, int64_t size, int which) noexcept nogil:
    cdef int power = 0
    while size > 0:
        if size & 1:
            crc = product(POWERS[which][power], crc, POLYNOMIALS[which])
        size >>= 1
        power += 1
    return crc


def crc32_joined(object first, object second, int64_t size):
    """Return the CRC-32 of two pieces joined, from those of each and the second's size."""
    return moved(first & 0xFFFFFFFF, size, 0) ^ <uint32_t>(second & 0xFFFFFFFF)


def crc32c_joined(object first, object second, int64_t size):
    """Return the CRC-32C of two pieces joined, from those of each and the second's size."""
    return moved(first & 0xFFFFFFFF, size, 1) ^ <uint32_t>(second & 0xFFFFFFFF)
