/* CRC-32C and CRC-32 with the instructions of the processor it runs on, or with tables.
 *
 * Polynomials here are written as the CRC registers hold them: reflected, bit 31 of a
 * 32-bit word is the coefficient of x^0, bit 0 that of x^31. "x^k" in a comment means
 * x^k mod P in that form. A carry-less product of two reflected words of a and b bits
 * has a + b - 1 bits, so each product seen as a + b bits is one power of x too high;
 * that is where the odd exponents below come from.
 *
 * The build needs no flags: the fast variants carry their own target attributes and are
 * entered only after the processor was asked. Compilers that know no such attributes get
 * the tables. For tests, KD_FORCE_TABLE and KD_FORCE_SERIAL (aarch64 without PMULL) leave
 * out the faster variants.
 *
 * AVX-512 is not used: it doubles the speed in cache, but a file is read at a quarter of
 * the speed reached here already.
 */
#include "_crc.h"

#include <string.h>

#define POLY_CRC32C 0x82F63B78u
#define POLY_CRC32 0xEDB88320u

#if !defined(KD_FORCE_TABLE) && defined(__GNUC__)
#if defined(__x86_64__) && !defined(__ILP32__)
#define KD_X86 1
#elif defined(__aarch64__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ && \
    (defined(__linux__) || defined(__APPLE__))
#define KD_ARM 1
#endif
#endif

/* One pointer is published when everything behind it is ready. */
#if defined(__GNUC__)
#define LOAD(pointer) __atomic_load_n(&(pointer), __ATOMIC_ACQUIRE)
#define STORE(pointer, value) __atomic_store_n(&(pointer), (value), __ATOMIC_RELEASE)
#define SHARED
#else
#define LOAD(pointer) (pointer)
#define STORE(pointer, value) ((pointer) = (value))
#define SHARED volatile
#endif

typedef uint32_t (*crc_function)(uint32_t crc, const uint8_t *p, size_t n);

typedef struct {
    const char *name;
    crc_function crc32c;
    crc_function crc32;
} variant;

/* ---------------------------------------------------------------- tables, 8 bytes a step */

/* table[k][b]: the register after byte b and k more zero bytes, from an empty register. */
static uint32_t table_crc32c[8][256];
static uint32_t table_crc32[8][256];

static void fill_table(uint32_t table[8][256], uint32_t poly)
{
    for (uint32_t byte = 0; byte < 256; byte++) {
        uint32_t r = byte;
        for (int bit = 0; bit < 8; bit++)
            r = (r >> 1) ^ (poly & (0u - (r & 1u)));
        table[0][byte] = r;
    }
    for (int k = 1; k < 8; k++)
        for (int byte = 0; byte < 256; byte++) {
            uint32_t r = table[k - 1][byte];
            table[k][byte] = (r >> 8) ^ table[0][r & 255];
        }
}

/* Spelled bytewise so that it is right on either byte order; little-endian compilers
 * make one load of it. */
static uint32_t load_le32(const uint8_t *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static uint32_t by_table(uint32_t table[8][256], uint32_t crc, const uint8_t *p, size_t n)
{
    uint32_t r = ~crc;
    for (; n >= 8; p += 8, n -= 8) {
        uint32_t first = load_le32(p) ^ r;
        uint32_t second = load_le32(p + 4);
        r = table[7][first & 255] ^ table[6][first >> 8 & 255] ^ table[5][first >> 16 & 255] ^
            table[4][first >> 24] ^ table[3][second & 255] ^ table[2][second >> 8 & 255] ^
            table[1][second >> 16 & 255] ^ table[0][second >> 24];
    }
    for (; n > 0; p++, n--)
        r = (r >> 8) ^ table[0][(r ^ *p) & 255];
    return ~r;
}

static uint32_t crc32c_table(uint32_t crc, const uint8_t *p, size_t n)
{
    return by_table(table_crc32c, crc, p, n);
}

static uint32_t crc32_table(uint32_t crc, const uint8_t *p, size_t n)
{
    return by_table(table_crc32, crc, p, n);
}

static const variant variant_table = {"table", crc32c_table, crc32_table};

/* ------------------------------------------------- a CRC instruction, three streams at once
 *
 * A CRC instruction takes 8 bytes, answers after three cycles and can be started every
 * cycle. So a long input is cut into three equal streams that run side by side, and the
 * three registers a, b, c are joined: a is moved over two streams, b over one, by a
 * carry-less product with the right power of x. The product is 64 bits, reduced by one
 * more CRC instruction, which multiplies by x^32; with the one power of the product
 * itself, moving over n bits takes x^(n - 33).
 *
 * The body is shared by CRC-32C on x86-64 and by both polynomials on aarch64.
 */
#if defined(KD_X86) || defined(KD_ARM)

#define STREAM_WORDS_MAX 512 /* 3 streams of 4 KiB: most batches in one or two rounds */
#define THREE_STREAMS_MIN 144

static uint64_t load64(const uint8_t *p)
{
    uint64_t word;
    memcpy(&word, p, sizeof word);
    return word;
}

#if defined(KD_ARM)
static uint32_t load32(const uint8_t *p)
{
    uint32_t word;
    memcpy(&word, p, sizeof word);
    return word;
}

static uint16_t load16(const uint8_t *p)
{
    uint16_t word;
    memcpy(&word, p, sizeof word);
    return word;
}
#endif

/* POWERS[w] is x^(64w - 33): what moves a register over w words of 8 bytes. The first is
 * x^31, and a CRC instruction fed with zeros multiplies by x^64. */
#define FILL_POWERS(POWERS, STEP64) \
    do { \
        uint32_t power = 1; \
        for (int w = 1; w <= 2 * STREAM_WORDS_MAX; w++) { \
            (POWERS)[w] = power; \
            power = (uint32_t)STEP64(power, 0); \
        } \
    } while (0)

#define THREE_STREAMS(r, p, n, POWERS, STEP64, MULTIPLY) \
    while ((n) >= THREE_STREAMS_MIN) { \
        size_t words = (n) / 24; \
        if (words > STREAM_WORDS_MAX) \
            words = STREAM_WORDS_MAX; \
        const uint8_t *pa = (p), *pb = pa + 8 * words, *pc = pb + 8 * words; \
        const uint8_t *stop = pb; \
        uint64_t b = 0, c = 0; \
        do { \
            (r) = STEP64((r), load64(pa)); \
            b = STEP64(b, load64(pb)); \
            c = STEP64(c, load64(pc)); \
            pa += 8, pb += 8, pc += 8; \
        } while (pa != stop); \
        (r) = STEP64(0, MULTIPLY((r), (POWERS)[2 * words]) ^ MULTIPLY(b, (POWERS)[words])) ^ c; \
        (p) += 24 * words; \
        (n) -= 24 * words; \
    }

#endif

/* ------------------------------------------------------------------------------- x86-64 */
#if defined(KD_X86)

#include <immintrin.h>

/* The instructions of CRC-32C came with SSE4.2. Clang has them as a feature of its own, since 14,
 * which -mno-crc32 takes away, and so does gcc 12; older releases know a part of SSE4.2 only.
 */
#if defined(__clang__) ? __clang_major__ >= 14 : __GNUC__ >= 12
#define X86 __attribute__((target("sse4.2,crc32,pclmul")))
#else
#define X86 __attribute__((target("sse4.2,pclmul")))
#endif

static uint32_t powers_x86[2 * STREAM_WORDS_MAX + 1];

X86 static inline uint64_t multiply_x86(uint64_t a, uint64_t b)
{
    return (uint64_t)_mm_cvtsi128_si64(
        _mm_clmulepi64_si128(_mm_cvtsi64_si128((long long)a), _mm_cvtsi64_si128((long long)b), 0));
}

X86 static void fill_powers_x86(void)
{
    FILL_POWERS(powers_x86, _mm_crc32_u64);
}

X86 static uint32_t crc32c_x86(uint32_t crc, const uint8_t *p, size_t n)
{
    uint64_t r = (uint32_t)~crc;
    THREE_STREAMS(r, p, n, powers_x86, _mm_crc32_u64, multiply_x86)
    for (; n >= 8; p += 8, n -= 8)
        r = _mm_crc32_u64(r, load64(p));
    if (n & 4) {
        r = _mm_crc32_u32((uint32_t)r, load_le32(p));
        p += 4;
    }
    if (n & 2) {
        uint16_t pair;
        memcpy(&pair, p, sizeof pair);
        r = _mm_crc32_u16((uint32_t)r, pair);
        p += 2;
    }
    if (n & 1)
        r = _mm_crc32_u8((uint32_t)r, *p);
    return ~(uint32_t)r;
}

/* CRC-32 has no instruction. The input is folded instead: 16 bytes held in a register are
 * moved over T bits by two products, one for each half, and land in 16 bytes further on.
 * With a multiplier of 33 bits (shifted left by one) the halves need x^(T + 32) for the
 * earlier 8 bytes and x^(T - 32) for the later ones. In the end 128 bits are left, and
 * those are folded to 96, to 64, and divided.
 */
typedef struct {
    uint64_t by_512[2], by_128[2]; /* earlier half, later half */
    uint64_t to_96, to_64;         /* x^96, x^64 */
    uint64_t quotient, poly;       /* x^64 / P and P, 33 bits */
} fold_constants;

static const fold_constants fold_crc32 = {
    .by_512 = {0x154442BD4, 0x1C6E41596}, /* x^544, x^480 */
    .by_128 = {0x1751997D0, 0x0CCAA009E}, /* x^160, x^96 */
    .to_96 = 0x0CCAA009E,
    .to_64 = 0x163CD6124,
    .quotient = 0x1F7011641,
    .poly = 0x1DB710641,
};

X86 static inline __m128i load128(const uint8_t *p)
{
    return _mm_loadu_si128((const __m128i *)(const void *)p);
}

X86 static inline __m128i pair128(uint64_t low, uint64_t high)
{
    return _mm_set_epi64x((long long)high, (long long)low);
}

X86 static inline __m128i fold128(__m128i x, __m128i k, __m128i next)
{
    __m128i earlier = _mm_clmulepi64_si128(x, k, 0x00);
    __m128i later = _mm_clmulepi64_si128(x, k, 0x11);
    return _mm_xor_si128(_mm_xor_si128(earlier, later), next);
}

/* shift_bytes + s as a pshufb mask moves bytes up by 16 - s; past 16, down by s - 16. */
static const uint8_t shift_bytes[48] = {
    128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128,
    0,   1,   2,   3,   4,   5,   6,   7,   8,   9,   10,  11,  12,  13,  14,  15,
    128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128,
};

/* Take the last n < 16 bytes before `end` into x. At least 16 bytes lie before `end`. */
X86 static inline __m128i fold_tail(__m128i x, __m128i k, const uint8_t *end, size_t n)
{
    __m128i up = load128(shift_bytes + n);
    __m128i down = load128(shift_bytes + 16 + n);
    /* The first n bytes of x, behind zeros, are folded over 16 bytes; the other bytes of
     * x and the n new ones are those 16. Where `down` has no source, the new bytes stand. */
    __m128i rest = _mm_blendv_epi8(_mm_shuffle_epi8(x, down), load128(end - 16), down);
    return fold128(_mm_shuffle_epi8(x, up), k, rest);
}

X86 static inline uint32_t reduce128(__m128i x, const fold_constants *constants)
{
    __m128i k = pair128(constants->to_96, constants->to_64);
    __m128i low32 = _mm_set_epi32(0, 0, 0, -1);
    x = _mm_xor_si128(_mm_clmulepi64_si128(x, k, 0x00), _mm_srli_si128(x, 8));
    x = _mm_xor_si128(_mm_clmulepi64_si128(_mm_and_si128(x, low32), k, 0x10),
                      _mm_srli_si128(x, 4));
    k = pair128(constants->quotient, constants->poly);
    __m128i q = _mm_clmulepi64_si128(_mm_and_si128(x, low32), k, 0x00);
    q = _mm_clmulepi64_si128(_mm_and_si128(q, low32), k, 0x10);
    return (uint32_t)_mm_extract_epi32(_mm_xor_si128(x, q), 1);
}

X86 static uint32_t crc32_x86(uint32_t crc, const uint8_t *p, size_t n)
{
    if (n < 16)
        return crc32_table(crc, p, n);
    const fold_constants *constants = &fold_crc32;
    __m128i k = pair128(constants->by_128[0], constants->by_128[1]);
    __m128i x = _mm_xor_si128(load128(p), _mm_cvtsi32_si128((int)~crc));
    p += 16, n -= 16;
    if (n >= 48) {
        __m128i wide = pair128(constants->by_512[0], constants->by_512[1]);
        __m128i x1 = load128(p), x2 = load128(p + 16), x3 = load128(p + 32);
        for (p += 48, n -= 48; n >= 64; p += 64, n -= 64) {
            x = fold128(x, wide, load128(p));
            x1 = fold128(x1, wide, load128(p + 16));
            x2 = fold128(x2, wide, load128(p + 32));
            x3 = fold128(x3, wide, load128(p + 48));
        }
        x = fold128(fold128(fold128(x, k, x1), k, x2), k, x3);
    }
    for (; n >= 16; p += 16, n -= 16)
        x = fold128(x, k, load128(p));
    if (n > 0)
        x = fold_tail(x, k, p + n, n);
    return ~reduce128(x, constants);
}

static const variant variant_x86 = {"x86-64 sse4.2+pclmulqdq", crc32c_x86, crc32_x86};

static const variant *choose(void)
{
    __builtin_cpu_init();
    if (!__builtin_cpu_supports("sse4.2") || !__builtin_cpu_supports("pclmul"))
        return &variant_table;
    fill_powers_x86();
    return &variant_x86;
}

/* ------------------------------------------------------------------------------ aarch64 */
#elif defined(KD_ARM)

#include <arm_acle.h>
#include <arm_neon.h>

#if defined(__APPLE__)
#include <sys/sysctl.h>
#else
#include <sys/auxv.h>
#endif

#if defined(__clang__)
#define ARM_CRC __attribute__((target("crc")))
#define ARM_CRC_PMULL __attribute__((target("crc,aes")))
#define crc32cx __builtin_arm_crc32cd
#define crc32cw __builtin_arm_crc32cw
#define crc32ch __builtin_arm_crc32ch
#define crc32cb __builtin_arm_crc32cb
#define crc32x __builtin_arm_crc32d
#define crc32w __builtin_arm_crc32w
#define crc32h __builtin_arm_crc32h
#define crc32b __builtin_arm_crc32b
#else
#define ARM_CRC __attribute__((target("+crc")))
#define ARM_CRC_PMULL __attribute__((target("+crc+crypto")))
#define crc32cx __crc32cd
#define crc32cw __crc32cw
#define crc32ch __crc32ch
#define crc32cb __crc32cb
#define crc32x __crc32d
#define crc32w __crc32w
#define crc32h __crc32h
#define crc32b __crc32b
#endif

static uint32_t powers_crc32c[2 * STREAM_WORDS_MAX + 1];
static uint32_t powers_crc32[2 * STREAM_WORDS_MAX + 1];

#define STEP_CRC32C(r, word) crc32cx((uint32_t)(r), (word))
#define STEP_CRC32(r, word) crc32x((uint32_t)(r), (word))

ARM_CRC static void fill_powers_arm(void)
{
    FILL_POWERS(powers_crc32c, STEP_CRC32C);
    FILL_POWERS(powers_crc32, STEP_CRC32);
}

ARM_CRC_PMULL static inline uint64_t multiply_arm(uint64_t a, uint64_t b)
{
    return vgetq_lane_u64(vreinterpretq_u64_p128(vmull_p64((poly64_t)a, (poly64_t)b)), 0);
}

/* Without PMULL there is nothing to join streams with, and one stream has to do. */
#define NO_STREAMS(r, p, n, POWERS, STEP64, MULTIPLY)

#define ARM_FUNCTION(NAME, TARGET, STREAMS, POWERS, STEP64, X, W, H, B) \
    TARGET static uint32_t NAME(uint32_t crc, const uint8_t *p, size_t n) \
    { \
        uint64_t r = (uint32_t)~crc; \
        STREAMS(r, p, n, POWERS, STEP64, multiply_arm) \
        for (; n >= 8; p += 8, n -= 8) \
            r = X((uint32_t)r, load64(p)); \
        if (n & 4) { \
            r = W((uint32_t)r, load32(p)); \
            p += 4; \
        } \
        if (n & 2) { \
            r = H((uint32_t)r, load16(p)); \
            p += 2; \
        } \
        if (n & 1) \
            r = B((uint32_t)r, *p); \
        return ~(uint32_t)r; \
    }

ARM_FUNCTION(crc32c_arm, ARM_CRC_PMULL, THREE_STREAMS, powers_crc32c, STEP_CRC32C, crc32cx, crc32cw,
             crc32ch, crc32cb)
ARM_FUNCTION(crc32_arm, ARM_CRC_PMULL, THREE_STREAMS, powers_crc32, STEP_CRC32, crc32x, crc32w,
             crc32h, crc32b)
ARM_FUNCTION(crc32c_arm_serial, ARM_CRC, NO_STREAMS, powers_crc32c, STEP_CRC32C, crc32cx, crc32cw,
             crc32ch, crc32cb)
ARM_FUNCTION(crc32_arm_serial, ARM_CRC, NO_STREAMS, powers_crc32, STEP_CRC32, crc32x, crc32w,
             crc32h, crc32b)

static const variant variant_arm = {"aarch64 crc+pmull", crc32c_arm, crc32_arm};
static const variant variant_arm_serial = {"aarch64 crc", crc32c_arm_serial, crc32_arm_serial};

#if defined(__APPLE__)
static int has(const char *feature)
{
    int value = 0;
    size_t size = sizeof value;
    return sysctlbyname(feature, &value, &size, NULL, 0) == 0 && value != 0;
}
#define HAS_CRC has("hw.optional.armv8_crc32")
/* Every processor that runs macOS has it; the name came later than the first of them. */
#define HAS_PMULL (has("hw.optional.arm.FEAT_PMULL") || has("hw.optional.armv8_crc32"))
#else
#define HAS_CRC ((getauxval(AT_HWCAP) & (1ul << 7)) != 0)   /* HWCAP_CRC32 */
#define HAS_PMULL ((getauxval(AT_HWCAP) & (1ul << 4)) != 0) /* HWCAP_PMULL */
#endif

static const variant *choose(void)
{
    if (!HAS_CRC)
        return &variant_table;
#if !defined(KD_FORCE_SERIAL)
    if (HAS_PMULL) {
        fill_powers_arm();
        return &variant_arm;
    }
#endif
    return &variant_arm_serial;
}

/* ------------------------------------------------------------------------ anything else */
#else

static const variant *choose(void)
{
    return &variant_table;
}

#endif

/* ----------------------------------------------------------------------------- dispatch */

/* Until kd_crc_init has run, a checksum goes through these and initialises first. Two
 * threads doing so at once write the same bytes to the same tables. */
static uint32_t crc32c_first(uint32_t crc, const uint8_t *p, size_t n);
static uint32_t crc32_first(uint32_t crc, const uint8_t *p, size_t n);

static const variant variant_unknown = {"", crc32c_first, crc32_first};
static const variant *SHARED chosen = &variant_unknown;

static uint32_t crc32c_first(uint32_t crc, const uint8_t *p, size_t n)
{
    kd_crc_init();
    return kd_crc32c(crc, p, n);
}

static uint32_t crc32_first(uint32_t crc, const uint8_t *p, size_t n)
{
    kd_crc_init();
    return kd_crc32(crc, p, n);
}

void kd_crc_init(void)
{
    if (LOAD(chosen) != &variant_unknown)
        return;
    fill_table(table_crc32c, POLY_CRC32C);
    fill_table(table_crc32, POLY_CRC32);
    STORE(chosen, choose());
}

uint32_t kd_crc32c(uint32_t crc, const uint8_t *p, size_t n)
{
    return LOAD(chosen)->crc32c(crc, p, n);
}

uint32_t kd_crc32(uint32_t crc, const uint8_t *p, size_t n)
{
    return LOAD(chosen)->crc32(crc, p, n);
}

const char *kd_crc_name(void)
{
    kd_crc_init();
    return LOAD(chosen)->name;
}
