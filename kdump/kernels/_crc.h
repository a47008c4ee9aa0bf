/* The two checksums of Kafka's log: CRC-32C (magic 2) and CRC-32 (magic 0 and 1).
 *
 * Both take a running value as zlib.crc32 does: start with 0; passing the result of
 * one piece with the next piece gives the CRC of the pieces joined. Nothing outside
 * p[0..n) is read, no alignment is asked for, and no Python is needed, so they may be
 * called without the GIL.
 */
#ifndef KD_CRC_H
#define KD_CRC_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Fill the tables and choose the variant. Call it once when the module is loaded; a
 * first checksum without it calls it by itself, and calling it again changes nothing. */
void kd_crc_init(void);

uint32_t kd_crc32c(uint32_t crc, const uint8_t *p, size_t n);
uint32_t kd_crc32(uint32_t crc, const uint8_t *p, size_t n);

/* Which variant runs: "x86-64 sse4.2+pclmulqdq", "aarch64 crc+pmull", "aarch64 crc" or
 * "table". */
const char *kd_crc_name(void);

#ifdef __cplusplus
}
#endif

#endif
