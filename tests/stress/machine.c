/* A machine whose wall clock is stepped, and whose disk is full, when another process says so.
 *
 * Loaded by LD_PRELOAD:
 *     MACHINE_STATE  a file of two 64-bit numbers: nanoseconds that the wall clock is ahead, and
 *                    the errno with which writes fail, or 0
 *     MACHINE_UNDER  the directory whose files cannot be written then
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

static volatile int64_t nothing[2];
static volatile int64_t *state = nothing;

__attribute__((constructor)) static void load(void) {
    const char *name = getenv("MACHINE_STATE");
    int file = name == NULL ? -1 : open(name, O_RDONLY | O_CLOEXEC);
    if (file < 0) return;
    void *found = mmap(NULL, sizeof nothing, PROT_READ, MAP_SHARED, file, 0);
    if (found != MAP_FAILED) state = found;
    close(file);
}

#define REAL(name, ...) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))(__VA_ARGS__)
#define SECOND 1000000000LL

int clock_gettime(clockid_t clock, struct timespec *now) {
    int failed = REAL(clock_gettime, clock, now);
    if (!failed && clock == CLOCK_REALTIME) {
        int64_t moved = now->tv_sec * SECOND + now->tv_nsec + state[0];
        now->tv_sec = moved / SECOND;
        now->tv_nsec = moved % SECOND;
    }
    return failed;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    struct timespec moved;
    (void)zone;
    if (clock_gettime(CLOCK_REALTIME, &moved)) return -1;
    now->tv_sec = moved.tv_sec;
    now->tv_usec = moved.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *kept) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (kept != NULL) *kept = now.tv_sec;
    return now.tv_sec;
}

/* Return whether a write to a file fails; then errno says why. */
static int fails(int file) {
    int code = (int)state[1], saved = errno;
    const char *under = getenv("MACHINE_UNDER");
    if (code == 0 || under == NULL) return 0;
    char link[64], path[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length < 0) length = 0;
    path[length] = 0;
    int ours = strncmp(path, under, strlen(under)) == 0;
    errno = ours ? code : saved;
    return ours;
}

ssize_t write(int file, const void *data, size_t size) {
    return fails(file) ? -1 : REAL(write, file, data, size);
}

ssize_t pwrite(int file, const void *data, size_t size, off_t place) {
    return fails(file) ? -1 : REAL(pwrite, file, data, size, place);
}

ssize_t pwrite64(int file, const void *data, size_t size, off64_t place) {
    return fails(file) ? -1 : REAL(pwrite64, file, data, size, place);
}

int fsync(int file) { return fails(file) ? -1 : REAL(fsync, file); }

int fdatasync(int file) { return fails(file) ? -1 : REAL(fdatasync, file); }
