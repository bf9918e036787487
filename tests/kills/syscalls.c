/* The Nth change to a file below a directory fails, or kills the process when half of it is done.
 *
 * Loaded into a process by LD_PRELOAD, so that what a library does without Python is reached, too:
 *     KILLS_UNDER  the directory        KILLS_AT  N        KILLS_HOW  EIO, or KILL
 * What counts is each write, synchronisation, truncation, renaming and deletion.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

static atomic_long changes;

static int below(const char *path) {
    const char *under = getenv("KILLS_UNDER");
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

/* 0: go on; 1: fail; 2: die after half of it. */
static int strikes(int ours) {
    const char *at = getenv("KILLS_AT"), *how = getenv("KILLS_HOW");
    if (!ours || at == NULL || how == NULL) return 0;
    if (atomic_fetch_add(&changes, 1) + 1 != atol(at)) return 0;
    fprintf(stderr, "change %s: %s\n", at, how);
    return strcmp(how, "EIO") == 0 ? 1 : 2;
}

static int fails(void) {
    errno = EIO;
    return -1;
}

static void dies(void) { kill(getpid(), SIGKILL); }

#define REAL(name, ...) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))(__VA_ARGS__)

#define WRITES(name, parameters, whole, half)                \
    ssize_t name parameters {                                \
        int saved = errno, fault = strikes(open_below(file)); \
        errno = saved;                                       \
        if (fault == 1) return fails();                      \
        if (fault == 2) { (void)!half; dies(); }             \
        return whole;                                        \
    }

#define CHANGES(name, parameters, ours, ...)          \
    int name parameters {                             \
        int saved = errno, fault = strikes(ours);      \
        errno = saved;                                \
        if (fault == 1) return fails();               \
        if (fault == 2) dies();                       \
        return REAL(name, __VA_ARGS__);               \
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
CHANGES(remove, (const char *path), below(path), path)
