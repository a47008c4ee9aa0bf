/* What the work costs in C when nothing but the work is done: the floor under kdump's walk.
 *
 *     floors MODE FILE        prints one line of JSON, with the processor time spent in main()
 *
 * read     read() into a 256 KiB buffer, nothing looked at
 * hop      mmap, step from header to header, no checksum
 * walk2    read() into the buffer, step over the entries there, CRC-32C of every one
 * map2     mmap, the same
 * walk1    read() into the buffer, magic 0 and 1: CRC-32 of every entry
 * map1     mmap, the same
 *
 * The checksums are kdump's own, so that the ratio of kdump to these shows the cost of
 * everything else.
 */
#define _POSIX_C_SOURCE 200809L

#include "_crc.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define BUFFER_SIZE (256 * 1024)

typedef struct {
    long long bytes, batches, records, bad;
} totals;

typedef enum { NOTHING, HOP, CRC2, CRC1 } what;

static uint32_t be32(const uint8_t *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

/* Step over whole entries, return the bytes they take. */
static size_t walk(const uint8_t *p, size_t n, what mode, totals *sum)
{
    size_t at = 0;
    while (n - at > 17) {
        const uint8_t *entry = p + at;
        int32_t length = (int32_t)be32(entry + 8);
        if (length < 14 || (size_t)length > n - at - 12)
            break;
        size_t size = 12 + (size_t)length;
        if (entry[16] >= 2 && size >= 61) {
            sum->records += (int32_t)be32(entry + 57);
            if (mode == CRC2)
                sum->bad += kd_crc32c(0, entry + 21, size - 21) != be32(entry + 17);
        } else {
            sum->records++;
            if (mode == CRC1)
                sum->bad += kd_crc32(0, entry + 16, size - 16) != be32(entry + 12);
        }
        sum->batches++;
        at += size;
    }
    return at;
}

static int by_read(int file, what mode, totals *sum)
{
    size_t room = BUFFER_SIZE, have = 0;
    uint8_t *buffer = malloc(room);
    while (buffer) {
        ssize_t got = read(file, buffer + have, room - have);
        if (got <= 0) {
            free(buffer);
            return got == 0 && have == 0 ? 0 : 1;
        }
        sum->bytes += got;
        if (mode == NOTHING)
            continue;
        have += (size_t)got;
        size_t used = walk(buffer, have, mode, sum);
        have -= used;
        memmove(buffer, buffer + used, have);
        if (have == room)
            buffer = realloc(buffer, room *= 2);
    }
    return 1;
}

static int by_mmap(int file, what mode, totals *sum)
{
    struct stat status;
    if (fstat(file, &status) != 0 || status.st_size == 0)
        return 1;
    size_t size = (size_t)status.st_size;
    const uint8_t *data = mmap(NULL, size, PROT_READ, MAP_PRIVATE, file, 0);
    if (data == MAP_FAILED)
        return 1;
    sum->bytes = (long long)size;
    return walk(data, size, mode, sum) == size ? 0 : 1;
}

static long long spent_ns(void)
{
    struct timespec spent;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &spent);
    return (long long)spent.tv_sec * 1000000000 + spent.tv_nsec;
}

int main(int count, char **arguments)
{
    long long began = spent_ns();
    const char *mode = count == 3 ? arguments[1] : "";
    int file = count == 3 ? open(arguments[2], O_RDONLY) : -1;
    totals sum = {0, 0, 0, 0};
    int failed = 1;
    if (file >= 0) {
        if (strcmp(mode, "read") == 0)
            failed = by_read(file, NOTHING, &sum);
        else if (strcmp(mode, "hop") == 0)
            failed = by_mmap(file, HOP, &sum);
        else if (strcmp(mode, "walk2") == 0)
            failed = by_read(file, CRC2, &sum);
        else if (strcmp(mode, "map2") == 0)
            failed = by_mmap(file, CRC2, &sum);
        else if (strcmp(mode, "walk1") == 0)
            failed = by_read(file, CRC1, &sum);
        else if (strcmp(mode, "map1") == 0)
            failed = by_mmap(file, CRC1, &sum);
    }
    printf("{\"bytes\":%lld,\"batches\":%lld,\"records\":%lld,\"bad\":%lld,"
           "\"cpu_ns\":%lld,\"crc\":\"%s\"}\n",
           sum.bytes, sum.batches, sum.records, sum.bad,
           spent_ns() - began, kd_crc_name());
    if (failed)
        fprintf(stderr, "floors: usage: floors read|hop|walk2|map2|walk1|map1 FILE\n");
    return failed;
}
