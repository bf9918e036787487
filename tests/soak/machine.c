/* A machine whose wall clock is stepped, and whose disk fails, when another process says so.
 *
 * Loaded by LD_PRELOAD:
 *     MACHINE_STATE  a file of four 64-bit numbers: nanoseconds that the wall clock is ahead, the
 *                    errno with which all changes fail (0: none), and a number N with an errno:
 *                    the Nth change from now on fails with it, or, if it is 0, kills the process
 *                    when half of it is done
 *     MACHINE_UNDER  the directory that the changes are in: each write, synchronisation,
 *                    truncation, renaming and deletion of its files
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

static volatile int64_t nothing[4];
static volatile int64_t *state = nothing;

__attribute__((constructor)) static void load(void) {
    const char *name = getenv("MACHINE_STATE");
    int file = name == NULL ? -1 : open(name, O_RDWR | O_CLOEXEC);
    if (file < 0) return;
    void *found = mmap(NULL, sizeof nothing, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
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

static int below(const char *path) {
    const char *under = getenv("MACHINE_UNDER");
    return under != NULL && strncmp(path, under, strlen(under)) == 0;
}

static int open_below(int file) {
    char link[64], path[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length < 0) return 0;
    path[length] = 0;
    return below(path);
}

/* Return 0: go on; an errno: fail with it; -1: die after half of it. */
static int strikes(int ours) {
    if (!ours) return 0;
    if (state[1]) return (int)state[1];
    if (state[2] <= 0 || __sync_sub_and_fetch(&state[2], 1)) return 0;
    fprintf(stderr, "a change fails: %s\n", state[3] ? strerror((int)state[3]) : "killed");
    return state[3] ? (int)state[3] : -1;
}

static int fails(int code) {
    errno = code;
    return -1;
}

static void dies(void) { kill(getpid(), SIGKILL); }

#define WRITES(name, parameters, whole, half)                       \
    ssize_t name parameters {                                       \
        int saved = errno, idle = !(state[1] | state[2]);           \
        int fault = idle ? 0 : strikes(open_below(file));           \
        errno = saved;                                              \
        if (fault > 0) return fails(fault);                         \
        if (fault < 0) { (void)!half; dies(); }                     \
        return whole;                                               \
    }

#define CHANGES(name, parameters, ours, ...)                        \
    int name parameters {                                           \
        int saved = errno, idle = !(state[1] | state[2]);           \
        int fault = idle ? 0 : strikes(ours);                       \
        errno = saved;                                              \
        if (fault > 0) return fails(fault);                         \
        if (fault < 0) dies();                                      \
        return REAL(name, __VA_ARGS__);                             \
    }

WRITES(write, (int file, const void *data, size_t size),
       REAL(write, file, data, size), REAL(write, file, data, size / 2))
WRITES(pwrite, (int file, const void *data, size_t size, off_t place),
       REAL(pwrite, file, data, size, place), REAL(pwrite, file, data, size / 2, place))
WRITES(pwrite64, (int file, const void *data, size_t size, off64_t place),
       REAL(pwrite64, file, data, size, place), REAL(pwrite64, file, data, size / 2, place))
WRITES(writev, (int file, const struct iovec *parts, int count),
       REAL(writev, file, parts, count), REAL(writev, file, parts, count / 2))
CHANGES(fsync, (int file), open_below(file), file)
CHANGES(fdatasync, (int file), open_below(file), file)
CHANGES(ftruncate, (int file, off_t size), open_below(file), file, size)
CHANGES(ftruncate64, (int file, off64_t size), open_below(file), file, size)
CHANGES(rename, (const char *from, const char *to), below(to), from, to)
CHANGES(unlink, (const char *path), below(path), path)
