/* Records each change to the files below a directory, and makes chosen changes fail.
 *
 * Loaded by LD_PRELOAD, so that what a library does without Python is recorded, too:
 *     DISK_UNDER  the directory        DISK_LOG  the file that gets the records
 *
 *     record:  kind (1 byte) | length of path (2) | length of data (4) | offset (8) | path | data
 *     kinds:   C create   W write   T truncate   S sync   D sync of a directory
 *              R rename (data: the new path)     U unlink   M make a directory   X remove one
 *
 * A change and its record are made under one mutex, so the log has the order of the changes.
 * `disk_fault` is called by the simulation in the same process.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static int log_file = -1;
static long changes, fault_at = -1, faults_left;
static int fault_code;

#define REAL(name, ...) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))(__VA_ARGS__)

/* Make `count` changes fail with an errno, beginning with the one that is `after` changes away. */
void disk_fault(int code, long after, long count) {
    pthread_mutex_lock(&mutex);
    fault_code = code;
    fault_at = changes + after;
    faults_left = count;
    pthread_mutex_unlock(&mutex);
}

/* Return the number of changes so far. */
long disk_changes(void) { return changes; }

static int below(const char *path) {
    const char *under = getenv("DISK_UNDER");
    return under != NULL && path != NULL && strncmp(path, under, strlen(under)) == 0;
}

static int path_of(int file, char *path, size_t size) {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t length = readlink(link, path, size - 1);
    if (length < 0) return 0;
    path[length] = 0;
    return below(path);
}

static void put(const void *data, size_t size) {
    const char *at = data;
    while (size > 0) {
        ssize_t done = syscall(SYS_write, log_file, at, size);
        if (done <= 0) abort();
        at += done;
        size -= (size_t)done;
    }
}

static void record(char kind, const char *path, const void *data, size_t size, int64_t offset) {
    if (log_file < 0) {
        const char *name = getenv("DISK_LOG");
        log_file = (int)syscall(SYS_openat, AT_FDCWD, name, O_WRONLY | O_CREAT | O_APPEND, 0600);
        if (log_file < 0) abort();
    }
    uint16_t path_size = (uint16_t)strlen(path);
    uint32_t data_size = (uint32_t)size;
    char head[15];
    head[0] = kind;
    memcpy(head + 1, &path_size, 2);
    memcpy(head + 3, &data_size, 4);
    memcpy(head + 7, &offset, 8);
    put(head, sizeof head);
    put(path, path_size);
    put(data, size);
}

/* Return whether this change fails; counts it. Called with the mutex held. */
static int fails(void) {
    long number = changes++;
    if (fault_at < 0 || number < fault_at || faults_left <= 0) return 0;
    faults_left--;
    errno = fault_code;
    return 1;
}

#define WRITES(name, parameters, call, bytes, position)                         \
    ssize_t name parameters {                                                   \
        char path[4096];                                                        \
        int saved = errno;                                                      \
        if (!path_of(file, path, sizeof path)) { errno = saved; return call; }  \
        errno = saved;                                                          \
        pthread_mutex_lock(&mutex);                                             \
        ssize_t done = -1;                                                      \
        if (!fails() && (done = call) > 0) record('W', path, bytes, (size_t)done, position); \
        saved = errno;                                                          \
        pthread_mutex_unlock(&mutex);                                           \
        errno = saved;                                                          \
        return done;                                                            \
    }

/* After a write the position of the file is the end of what was written, also with O_APPEND. */
WRITES(write, (int file, const void *data, size_t size), REAL(write, file, data, size), data,
       lseek(file, 0, SEEK_CUR) - done)
WRITES(pwrite, (int file, const void *data, size_t size, off_t place),
       REAL(pwrite, file, data, size, place), data, place)
WRITES(pwrite64, (int file, const void *data, size_t size, off64_t place),
       REAL(pwrite64, file, data, size, place), data, place)

ssize_t writev(int file, const struct iovec *parts, int count) {
    char path[4096];
    int saved = errno;
    int ours = path_of(file, path, sizeof path);
    errno = saved;
    if (!ours) return REAL(writev, file, parts, count);
    ssize_t done = 0;
    for (int i = 0; i < count; i++) {
        ssize_t part = write(file, parts[i].iov_base, parts[i].iov_len);
        if (part < 0) return done ? done : -1;
        done += part;
        if ((size_t)part < parts[i].iov_len) break;
    }
    return done;
}

#define CHANGES(name, parameters, ours, call, recorded)  \
    int name parameters {                                \
        char path[4096];                                 \
        int saved = errno;                               \
        if (!(ours)) { errno = saved; return call; }     \
        errno = saved;                                   \
        pthread_mutex_lock(&mutex);                      \
        int done = -1;                                   \
        if (!fails() && (done = call) == 0) recorded;    \
        saved = errno;                                   \
        pthread_mutex_unlock(&mutex);                    \
        errno = saved;                                   \
        return done;                                     \
    }

#define FILE_BELOW path_of(file, path, sizeof path)
#define NAME_BELOW(name) ((void)path, below(name))

static char kind_of(int file) {
    struct stat found;
    return fstat(file, &found) == 0 && S_ISDIR(found.st_mode) ? 'D' : 'S';
}

CHANGES(fsync, (int file), FILE_BELOW, REAL(fsync, file), record(kind_of(file), path, "", 0, 0))
CHANGES(fdatasync, (int file), FILE_BELOW, REAL(fdatasync, file), record('S', path, "", 0, 0))
CHANGES(ftruncate, (int file, off_t size), FILE_BELOW, REAL(ftruncate, file, size),
        record('T', path, "", 0, size))
CHANGES(ftruncate64, (int file, off64_t size), FILE_BELOW, REAL(ftruncate64, file, size),
        record('T', path, "", 0, size))
CHANGES(truncate, (const char *name, off_t size), NAME_BELOW(name), REAL(truncate, name, size),
        record('T', name, "", 0, size))
CHANGES(truncate64, (const char *name, off64_t size), NAME_BELOW(name),
        REAL(truncate64, name, size), record('T', name, "", 0, size))
CHANGES(rename, (const char *from, const char *to), NAME_BELOW(to), REAL(rename, from, to),
        record('R', from, to, strlen(to), 0))
CHANGES(unlink, (const char *name), NAME_BELOW(name), REAL(unlink, name),
        record('U', name, "", 0, 0))
CHANGES(remove, (const char *name), NAME_BELOW(name), REAL(remove, name),
        record('U', name, "", 0, 0))
CHANGES(rmdir, (const char *name), NAME_BELOW(name), REAL(rmdir, name), record('X', name, "", 0, 0))
CHANGES(mkdir, (const char *name, mode_t mode), NAME_BELOW(name), REAL(mkdir, name, mode),
        record('M', name, "", 0, 0))

/* Opening is a change if it makes a file or cuts one; the path is absolute in this project. */
#define OPENS(name)                                                                   \
    int name(const char *path, int flags, ...) {                                      \
        va_list more;                                                                 \
        va_start(more, flags);                                                        \
        mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(more, mode_t) : 0;       \
        va_end(more);                                                                 \
        int saved = errno;                                                            \
        struct stat found;                                                            \
        int there = stat(path, &found) == 0;                                          \
        int cut = there && (flags & O_TRUNC) && found.st_size > 0;                    \
        errno = saved;                                                                \
        if (!below(path) || !((!there && (flags & O_CREAT)) || cut))                  \
            return REAL(name, path, flags, mode);                                     \
        pthread_mutex_lock(&mutex);                                                   \
        int file = fails() ? -1 : REAL(name, path, flags, mode);                      \
        if (file >= 0) record(there ? 'T' : 'C', path, "", 0, 0);                     \
        saved = errno;                                                                \
        pthread_mutex_unlock(&mutex);                                                 \
        errno = saved;                                                                \
        return file;                                                                  \
    }

OPENS(open)
OPENS(open64)
