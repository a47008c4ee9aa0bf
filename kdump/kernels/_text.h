/* Copying text up to the next byte that JSON, CSV or a terminal does not take as it is. */
#ifndef KDUMP_TEXT_H
#define KDUMP_TEXT_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__SSE2__) || defined(_M_X64)
#include <emmintrin.h>
#define KD_TEXT_SSE2 1
#endif

#if defined(__GNUC__) && defined(__x86_64__)
#include <immintrin.h>
#define KD_TEXT_AVX2 1
#endif

#define KD_TEXT_SLACK 32 /* bytes that may be written behind those counted */

#if defined(__GNUC__)
#define KD_ALWAYS_INLINE static inline __attribute__((always_inline))
#else
#define KD_ALWAYS_INLINE static inline
#endif

/* Copies a short text, of which KD_TEXT_SLACK bytes more may be read and written. */
static inline char *kd_copy_short(char *at, const char *text, size_t n) {
    memcpy(at, text, KD_TEXT_SLACK);
    if (n > KD_TEXT_SLACK) {
        size_t done = KD_TEXT_SLACK;
        if (n > 8 * KD_TEXT_SLACK) memcpy(at, text, n);
        else for (; done < n; done += KD_TEXT_SLACK) memcpy(at + done, text + done, KD_TEXT_SLACK);
    }
    return at + n;
}

/* Whether the processor has AVX2 and BMI; 0 until that was asked, then 1 for no and 2 for yes. */
static int kd_vectors = 0;

static inline int kd_has_vectors(void) {
#ifdef KD_TEXT_AVX2
    if (!kd_vectors)
        kd_vectors = 1 + (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi"));
#endif
    return kd_vectors == 2;
}

#ifdef KD_TEXT_AVX2
__attribute__((target("avx2"))) static void kd_copy_vectors(char *at, const char *text, size_t n) {
    const char *end = text + n;
    for (; text < end; text += 64, at += 64) {
        __m256i first = _mm256_loadu_si256((const __m256i *)text);
        __m256i second = _mm256_loadu_si256((const __m256i *)(text + 32));
        _mm256_storeu_si256((__m256i *)at, first);
        _mm256_storeu_si256((__m256i *)(at + 32), second);
    }
}
#endif

/* The same of a text of some hundred bytes, with twice the room behind it. */
static inline char *kd_copy_row(char *at, const char *text, size_t n) {
#ifdef KD_TEXT_AVX2
    if (kd_has_vectors()) {
        kd_copy_vectors(at, text, n);
        return at + n;
    }
#endif
    return kd_copy_short(at, text, n);
}

/* How text is spelled; what is not ASCII is always left to the caller. */
enum {
    KD_JSON = 1,    /* quotes, backslashes and controls by a backslash */
    KD_SHOWN = 2,   /* controls as a terminal may see them: \n, \x1b */
    KD_DOUBLED = 4, /* quotes doubled, as in a quoted cell of CSV */
};

static inline int kd_is_special(uint8_t byte, int spelling) {
    if (byte >= 0x80) return 1;
    if (spelling & (KD_JSON | KD_SHOWN) && (byte < 0x20 || byte == 0x7F)) return 1;
    if (spelling & (KD_JSON | KD_DOUBLED) && byte == '"') return 1;
    return spelling & KD_JSON && byte == '\\';
}

#ifdef KD_TEXT_SSE2
/* One bit for each of 16 bytes that is special. As signed numbers, bytes from 0x80 on are
 * negative, and so is 0x7F plus one: one comparison finds them and the control characters. */
KD_ALWAYS_INLINE unsigned kd_specials(__m128i bytes, int spelling) {
    __m128i found = bytes;
    if (spelling & (KD_JSON | KD_SHOWN))
        found = _mm_cmpgt_epi8(_mm_set1_epi8(0x21), _mm_add_epi8(bytes, _mm_set1_epi8(1)));
    if (spelling & (KD_JSON | KD_DOUBLED))
        found = _mm_or_si128(found, _mm_cmpeq_epi8(bytes, _mm_set1_epi8('"')));
    if (spelling & KD_JSON)
        found = _mm_or_si128(found, _mm_cmpeq_epi8(bytes, _mm_set1_epi8('\\')));
    return (unsigned)_mm_movemask_epi8(found);
}

static inline unsigned kd_lowest_bit(unsigned bits) {
#if defined(__GNUC__) || defined(__clang__)
    return (unsigned)__builtin_ctz(bits);
#else
    unsigned at = 0;
    while (!(bits >> at & 1)) at++;
    return at;
#endif
}
#endif

/* Copies p[0..] to `at` up to the first special byte or n, and returns how many bytes that is.
 * Reads nothing at or past p + n; may write KD_TEXT_SLACK bytes past what it counts. */
KD_ALWAYS_INLINE size_t kd_copy_plain(char *at, const uint8_t *p, size_t n, int spelling) {
    size_t done = 0;
#ifdef KD_TEXT_SSE2
    while (n - done >= 16) {
        __m128i bytes = _mm_loadu_si128((const __m128i *)(p + done));
        unsigned bits = kd_specials(bytes, spelling);
        _mm_storeu_si128((__m128i *)(at + done), bytes);
        if (bits) return done + kd_lowest_bit(bits);
        done += 16;
    }
#else
    while (n - done >= 8) {
        uint64_t word, odd, quote, slash;
        const uint64_t ones = UINT64_C(0x0101010101010101), high = UINT64_C(0x8080808080808080);
        memcpy(&word, p + done, 8);
        quote = word ^ ones * '"';
        slash = word ^ ones * '\\';
        odd = word;
        if (spelling & (KD_JSON | KD_SHOWN)) /* below 0x20; 0x7F and above */
            odd |= (word - ones * 0x20) | (word + ones);
        if (spelling & (KD_JSON | KD_DOUBLED)) odd |= (quote - ones) & ~quote;
        if (spelling & KD_JSON) odd |= (slash - ones) & ~slash;
        if (odd & high) break;
        memcpy(at + done, &word, 8);
        done += 8;
    }
#endif
#ifdef KD_TEXT_SSE2
    if (done < n) { /* fewer than 16 left: as a block with zeros, which are special, behind them */
        unsigned bits;
        __m128i bytes;
        if (done) { /* the last 16 bytes, of which the first are done already */
            size_t again = 16 - (n - done);
            bytes = _mm_loadu_si128((const __m128i *)(p + n - 16));
            _mm_storeu_si128((__m128i *)(at + n - 16), bytes);
            bits = kd_specials(bytes, spelling) >> again;
        } else {
            uint8_t block[16] = {0};
            memcpy(block, p, n);
            bytes = _mm_loadu_si128((const __m128i *)block);
            _mm_storeu_si128((__m128i *)at, bytes);
            bits = kd_specials(bytes, spelling) & ((1u << n) - 1);
        }
        return bits ? done + kd_lowest_bit(bits) : n;
    }
#else
    while (done < n && !kd_is_special(p[done], spelling)) {
        at[done] = (char)p[done];
        done++;
    }
#endif
    return done;
}

/* What a byte becomes that has a short form, 0 for others: a backslash and a letter, or, doubled, the
 * quote twice. */
KD_ALWAYS_INLINE char kd_short_form(uint8_t byte, int spelling) {
    static const char letters[256] = {
        ['\b'] = 'b', ['\t'] = 't', ['\n'] = 'n', ['\f'] = 'f', ['\r'] = 'r',
        ['"'] = '"', ['\\'] = '\\',
    };
    if (!(spelling & KD_JSON) && (byte == '\b' || byte == '\f')) return 0;
    return letters[byte];
}

KD_ALWAYS_INLINE char *kd_add_short(char *at, char letter, int spelling) {
    at[0] = spelling & KD_JSON || letter != '"' ? '\\' : '"';
    at[1] = letter;
    if (!(spelling & KD_JSON && spelling & KD_DOUBLED && letter == '"')) return at + 2;
    at[2] = '"';
    return at + 3;
}

/* Copies text from *from up to n bytes, with short forms, and returns the end of what it wrote.
 * Stops before a byte that needs more than a short form; *from is moved to where it stopped.
 * Writes at most 3 n + KD_TEXT_SLACK bytes; reads nothing at or past *from + n. */
KD_ALWAYS_INLINE char *kd_copy_spelled(char *at, const uint8_t **from, size_t n, int spelling) {
    const uint8_t *p = *from, *end = p + n;
    for (;;) {
        char letter;
#ifdef KD_TEXT_SSE2
        /* Specials of a block are found once and taken one by one: the next does not wait for a
         * new comparison. What lies between them is copied by 16 bytes too many, which is why 32
         * have to be left. */
        while (end - p >= 32) {
            __m128i bytes = _mm_loadu_si128((const __m128i *)p);
            unsigned bits = kd_specials(bytes, spelling);
            size_t start = 0;
            _mm_storeu_si128((__m128i *)at, bytes);
            while (bits) {
                size_t k = kd_lowest_bit(bits);
                letter = kd_short_form(p[k], spelling);
                at += k - start;
                if (!letter) {
                    *from = p + k;
                    return at;
                }
                at = kd_add_short(at, letter, spelling);
                start = k + 1;
                _mm_storeu_si128((__m128i *)at, _mm_loadu_si128((const __m128i *)(p + start)));
                bits &= bits - 1;
            }
            at += 16 - start;
            p += 16;
        }
#endif
        n = kd_copy_plain(at, p, (size_t)(end - p), spelling);
        p += n;
        at += n;
        if (p == end || !(letter = kd_short_form(*p, spelling))) {
            *from = p;
            return at;
        }
        at = kd_add_short(at, letter, spelling);
        p++;
    }
}

/* The same with the spelling known to the compiler, for those that records are written in. */
KD_ALWAYS_INLINE char *kd_copy_text(char *at, const uint8_t **from, size_t n, int spelling) {
    switch (spelling) {
    case 0: return kd_copy_spelled(at, from, n, 0);
    case KD_JSON: return kd_copy_spelled(at, from, n, KD_JSON);
    case KD_SHOWN: return kd_copy_spelled(at, from, n, KD_SHOWN);
    case KD_DOUBLED: return kd_copy_spelled(at, from, n, KD_DOUBLED);
    default: return kd_copy_spelled(at, from, n, spelling);
    }
}

/* Copies one block of JSON text, of which `size` bytes count. Where only quotes and backslashes need
 * a form, `at` counts one more for each before it; at another special byte it does what `ELSE` says. */
#define KD_JSON_BLOCK(VECTOR, LOAD, STORE, ALL, OR, EQUAL, ABOVE, ADD, MASK, COUNTED, ELSE)         \
    {                                                                                               \
        VECTOR bytes = LOAD((const VECTOR *)p);                                                     \
        VECTOR marks = OR(EQUAL(bytes, ALL('"')), EQUAL(bytes, ALL('\\')));                         \
        VECTOR others = ABOVE(ALL(0x21), ADD(bytes, ALL(1)));                                       \
        uint32_t bits = (uint32_t)MASK(OR(marks, others)) & COUNTED;                                \
        STORE((VECTOR *)at, bytes);                                                                 \
        if (bits) {                                                                                 \
            if (bits & ~(uint32_t)MASK(marks)) ELSE;                                                \
            do {                                                                                    \
                size_t k = kd_lowest_bit(bits);                                                     \
                at[k] = '\\';                                                                       \
                STORE((VECTOR *)(at + k + 1), LOAD((const VECTOR *)(p + k)));                       \
                at++;                                                                               \
            } while (bits &= bits - 1);                                                             \
        }                                                                                           \
    }

/* Copies blocks of JSON text, the last one whole, as long as twice its width may be read before
 * `limit`; ends at a byte that needs more than a backslash. */
#define KD_JSON_BLOCKS(WIDTH, ...)                                                                  \
    const uint8_t *p = *from;                                                                       \
    ptrdiff_t left = end - p, whole = limit - p - WIDTH;                                            \
    if (whole > left) whole = left;                                                                 \
    for (whole -= WIDTH; whole >= 0; whole -= WIDTH) {                                              \
        KD_JSON_BLOCK(__VA_ARGS__, UINT32_MAX, goto done)                                           \
        at += WIDTH;                                                                                \
        p += WIDTH;                                                                                 \
    }                                                                                               \
    left = end - p;                                                                                 \
    if (left > 0 && left < WIDTH && limit - p >= 2 * WIDTH) {                                       \
        KD_JSON_BLOCK(__VA_ARGS__, (((uint32_t)1 << left) - 1), goto done)                          \
        at += left;                                                                                 \
        p += left;                                                                                  \
    }                                                                                               \
done:                                                                                               \
    *from = p;                                                                                      \
    return at;

#ifdef KD_TEXT_SSE2
static inline char *kd_json_16(
    char *at, const uint8_t **from, const uint8_t *end, const uint8_t *limit
) {
    KD_JSON_BLOCKS(16, __m128i, _mm_loadu_si128, _mm_storeu_si128, _mm_set1_epi8, _mm_or_si128,
                   _mm_cmpeq_epi8, _mm_cmpgt_epi8, _mm_add_epi8, _mm_movemask_epi8)
}
#endif

#ifdef KD_TEXT_AVX2
__attribute__((target("avx2,bmi"))) static char *kd_json_32(
    char *at, const uint8_t **from, const uint8_t *end, const uint8_t *limit
) {
    KD_JSON_BLOCKS(32, __m256i, _mm256_loadu_si256, _mm256_storeu_si256, _mm256_set1_epi8,
                   _mm256_or_si256, _mm256_cmpeq_epi8, _mm256_cmpgt_epi8, _mm256_add_epi8,
                   _mm256_movemask_epi8)
}
#endif

/* Copies text from *from to `end` in JSON's spelling, as kd_copy_spelled does, where all up to `limit`
 * may be read. Writes up to 2 KD_TEXT_SLACK bytes past what it counts. */
static inline char *kd_copy_json(
    char *at, const uint8_t **from, const uint8_t *end, const uint8_t *limit
) {
#ifdef KD_TEXT_AVX2
    if (kd_has_vectors())
        at = kd_json_32(at, from, end, limit);
    if (*from == end) return at;
#endif
#ifdef KD_TEXT_SSE2
    at = kd_json_16(at, from, end, limit);
#endif
    return *from == end ? at : kd_copy_spelled(at, from, (size_t)(end - *from), KD_JSON);
}

/* Returns the first index from `start` on where `sought` (n bytes, not none) stands before `end`; -1
 * for none. Its first and its last byte are looked for together, 16 places at a time. */
static inline ptrdiff_t kd_find(
    const uint8_t *data, ptrdiff_t start, ptrdiff_t end, const uint8_t *sought, ptrdiff_t n
) {
    ptrdiff_t at = start, stop = end - n;
#ifdef KD_TEXT_SSE2
    __m128i first = _mm_set1_epi8((char)sought[0]), last = _mm_set1_epi8((char)sought[n - 1]);
    for (; at + 15 <= stop; at += 16) {
        __m128i heads = _mm_loadu_si128((const __m128i *)(data + at));
        __m128i tails = _mm_loadu_si128((const __m128i *)(data + at + n - 1));
        unsigned bits = (unsigned)_mm_movemask_epi8(
            _mm_and_si128(_mm_cmpeq_epi8(heads, first), _mm_cmpeq_epi8(tails, last)));
        for (; bits; bits &= bits - 1) {
            ptrdiff_t k = at + (ptrdiff_t)kd_lowest_bit(bits);
            if (!memcmp(data + k, sought, (size_t)n)) return k;
        }
    }
#endif
    for (; at <= stop; at++)
        if (data[at] == sought[0] && !memcmp(data + at, sought, (size_t)n)) return at;
    return -1;
}

/* The first place from `at` on, before `stop`, where an entry of a log may start by a few of its
   bytes: a magic of `newest` at the most, a size that is not negative, and, where messages have
   their attributes, no bits that these do not have. 17 bytes behind `stop` may be read. */
static inline ptrdiff_t kd_candidate(
    const uint8_t *data, ptrdiff_t at, ptrdiff_t stop, uint8_t newest
) {
#ifdef KD_TEXT_SSE2
    __m128i most = _mm_set1_epi8((char)newest), one = _mm_set1_epi8(1), low = _mm_set1_epi8(0x0F);
    for (; at + 15 < stop; at += 16) { /* in noise a second branch costs more than what it saves */
        __m128i magic = _mm_loadu_si128((const __m128i *)(data + at + 16));
        __m128i next = _mm_loadu_si128((const __m128i *)(data + at + 17));
        __m128i size = _mm_loadu_si128((const __m128i *)(data + at + 8));
        __m128i known = _mm_cmpeq_epi8(_mm_min_epu8(magic, most), magic);
        __m128i message = _mm_cmpeq_epi8(_mm_min_epu8(magic, one), magic);
        __m128i meant = _mm_cmpeq_epi8(_mm_min_epu8(next, low), next);
        __m128i out = _mm_or_si128(size, _mm_andnot_si128(meant, message)); /* by its top bits */
        unsigned bits = (unsigned)_mm_movemask_epi8(_mm_andnot_si128(out, known));
        if (bits) return at + (ptrdiff_t)kd_lowest_bit(bits);
    }
#endif
    for (; at < stop; at++)
        if (data[at + 16] <= newest && data[at + 8] < 0x80) return at;
    return stop;
}

#endif
