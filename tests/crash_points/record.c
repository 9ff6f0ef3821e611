/* Records every change that a process makes to the files of one directory, and every sync, in the order in which they
 * happen. Loaded by LD_PRELOAD (record.py); Linux and glibc. It can end the process between two calls.
 *
 *   RECORD_DIR  absolute; files outside it are not recorded
 *   RECORD_LOG  a record for each call that has succeeded, which several processes append to
 *   RECORD_KILL the sync, by its number from 0, before which the process gets SIGKILL
 *
 * A record is a struct record, the name relative to RECORD_DIR, and the data. A lock makes a call and its record one
 * step for the threads of a process. What a process does before it sends something precedes what the receiver does.
 * The index of SQLite's log (-shm) is left out: it is rebuilt, never read, after a crash.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

struct record {
  int32_t kind, pid;
  int64_t at; /* the offset of a write, the size of a truncation, the bytes of a sending */
  uint32_t name_size, data_size;
};

enum kind { CREATE = 'c', TRUNCATE = 't', WRITE = 'w', SYNC = 's', RANGE = 'p', RENAME = 'r', UNLINK = 'u', MKDIR = 'm',
            RMDIR = 'd', SEND = 'n' };

static pthread_mutex_t one_at_a_time = PTHREAD_MUTEX_INITIALIZER;
static const char *directory;
static int log_fd = -1;
static long syncs, deadly = -1;

__attribute__((constructor)) static void begin(void) {
  directory = getenv("RECORD_DIR");
  if (getenv("RECORD_KILL")) deadly = atol(getenv("RECORD_KILL"));
  if (getenv("RECORD_LOG"))
    log_fd = syscall(SYS_openat, AT_FDCWD, getenv("RECORD_LOG"), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
}

/* The name in the directory, "." for the directory itself, or NULL for a file that is not recorded. */
static const char *watched(const char *path) {
  size_t length = directory ? strlen(directory) : 0, end = strlen(path);
  if (!length || log_fd < 0 || strncmp(path, directory, length)) return NULL;
  if (path[length] == 0) return ".";
  if (path[length] != '/' || (end > 4 && !strcmp(path + end - 4, "-shm"))) return NULL;
  return path + length + 1;
}

static const char *watched_fd(int fd, char *path) {
  char link[64];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  ssize_t length = readlink(link, path, PATH_MAX - 1);
  if (length < 0) return NULL;
  path[length] = 0;
  return watched(path);
}

/* As watched, for a path that a call has with a folder's descriptor. `whole` has room for the path. */
static const char *watched_at(int folder, const char *path, char *whole) {
  if (path[0] == '/') return snprintf(whole, PATH_MAX, "%s", path) < PATH_MAX ? watched(whole) : NULL;
  char base[PATH_MAX] = "", link[64] = "/proc/self/cwd";
  if (folder != AT_FDCWD) snprintf(link, sizeof link, "/proc/self/fd/%d", folder);
  if (readlink(link, base, sizeof base - 1) < 0) return NULL;
  return snprintf(whole, PATH_MAX, "%s/%s", base, path) < PATH_MAX ? watched(whole) : NULL;
}

static void record(enum kind kind, const char *name, int64_t at, const void *data, size_t size) {
  int before = errno;
  struct record head = {kind, getpid(), at, strlen(name), size};
  struct iovec parts[] = {{&head, sizeof head}, {(void *)name, head.name_size}, {(void *)data, size}};
  syscall(SYS_writev, log_fd, parts, 3); /* the file is opened with O_APPEND, so a record stays in one piece */
  errno = before;
}

/* A call that begins with the lock, and a record of it that ends with the lock. */
#define BEGIN pthread_mutex_lock(&one_at_a_time)
#define END(result)                         \
  do {                                      \
    pthread_mutex_unlock(&one_at_a_time);   \
    return result;                          \
  } while (0)

#define NEXT(name) ((__typeof__(name) *)dlsym(RTLD_NEXT, #name))

/* Opening: a creation if the file is new, a truncation if it is emptied. */
#define OPENED(call)                                                                 \
  int changes = file && flags & (O_CREAT | O_TRUNC) && (flags & O_TMPFILE) != O_TMPFILE; \
  if (!changes) return call;                                                         \
  BEGIN;                                                                             \
  int is_new = syscall(SYS_faccessat, AT_FDCWD, whole, F_OK) != 0;                   \
  int fd = call;                                                                     \
  if (fd >= 0 && is_new) record(CREATE, file, 0, "", 0);                             \
  if (fd >= 0 && !is_new && flags & O_TRUNC) record(TRUNCATE, file, 0, "", 0);       \
  END(fd)
#define MODE                                                               \
  va_list rest;                                                            \
  va_start(rest, flags);                                                   \
  mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(rest, mode_t) : 0;  \
  va_end(rest);                                                            \
  char whole[PATH_MAX]
#define OPEN(name)                                               \
  int name(const char *path, int flags, ...) {                   \
    MODE;                                                        \
    const char *file = watched_at(AT_FDCWD, path, whole);        \
    OPENED(NEXT(name)(path, flags, mode));                       \
  }
#define OPENAT(name)                                             \
  int name(int folder, const char *path, int flags, ...) {       \
    MODE;                                                        \
    const char *file = watched_at(folder, path, whole);          \
    OPENED(NEXT(name)(folder, path, flags, mode));               \
  }
OPEN(open)
OPEN(open64)
OPENAT(openat)
OPENAT(openat64)

/* Writing: the bytes that were written, at the offset at which they lie. */
#define WRITTEN(call, offset, data)                                      \
  char path[PATH_MAX];                                                   \
  const char *file = watched_fd(fd, path);                               \
  if (!file) return call;                                                \
  BEGIN;                                                                 \
  ssize_t done = call;                                                   \
  if (done > 0) record(WRITE, file, offset, data, done);                 \
  END(done)
#define END_OF_WRITE (lseek(fd, 0, SEEK_CUR) - done)
ssize_t write(int fd, const void *data, size_t size) { WRITTEN(NEXT(write)(fd, data, size), END_OF_WRITE, data); }
ssize_t pwrite(int fd, const void *data, size_t size, off_t at) { WRITTEN(NEXT(pwrite)(fd, data, size, at), at, data); }
ssize_t pwrite64(int fd, const void *data, size_t size, off64_t at) {
  WRITTEN(NEXT(pwrite64)(fd, data, size, at), at, data);
}

/* The parts of a vector, one write after another, as far as they were written. */
static void record_parts(const char *file, const struct iovec *parts, ssize_t done, int64_t at) {
  for (; done > 0; ++parts) {
    ssize_t size = (ssize_t)parts->iov_len < done ? (ssize_t)parts->iov_len : done;
    if (size) record(WRITE, file, at, parts->iov_base, size);
    done -= size, at += size;
  }
}
#define VECTOR(call, offset)                                \
  char path[PATH_MAX];                                      \
  const char *file = watched_fd(fd, path);                  \
  if (!file) return call;                                   \
  BEGIN;                                                    \
  ssize_t done = call;                                      \
  if (done > 0) record_parts(file, parts, done, offset);    \
  END(done)
ssize_t writev(int fd, const struct iovec *parts, int count) { VECTOR(NEXT(writev)(fd, parts, count), END_OF_WRITE); }
ssize_t pwritev(int fd, const struct iovec *parts, int count, off_t at) {
  VECTOR(NEXT(pwritev)(fd, parts, count, at), at);
}

/* A sync. Before it, everything that the process has changed since the last one is in the page cache alone. */
#define SYNCED(name)                                        \
  int name(int fd) {                                        \
    char path[PATH_MAX];                                    \
    const char *file = watched_fd(fd, path);                \
    if (!file) return NEXT(name)(fd);                       \
    BEGIN;                                                  \
    if (syncs++ == deadly) kill(getpid(), SIGKILL);         \
    int code = NEXT(name)(fd);                              \
    if (!code) record(SYNC, file, 0, "", 0);                \
    END(code);                                              \
  }
SYNCED(fsync)
SYNCED(fdatasync)

/* Other calls of a descriptor or a path that return 0 if they succeed. */
#define ON_FD(name, kind, at, parameters, arguments)        \
  int name parameters {                                     \
    char path[PATH_MAX];                                    \
    const char *file = watched_fd(fd, path);                \
    if (!file) return NEXT(name) arguments;                 \
    BEGIN;                                                  \
    int code = NEXT(name) arguments;                        \
    if (!code) record(kind, file, at, "", 0);               \
    END(code);                                              \
  }
#define ON_PATH(name, kind, folder, parameters, arguments)  \
  int name parameters {                                     \
    char whole[PATH_MAX];                                   \
    const char *file = watched_at(folder, path, whole);     \
    if (!file) return NEXT(name) arguments;                 \
    BEGIN;                                                  \
    int code = NEXT(name) arguments;                        \
    if (!code) record(kind, file, 0, "", 0);                \
    END(code);                                              \
  }
ON_FD(ftruncate, TRUNCATE, size, (int fd, off_t size), (fd, size))
ON_FD(ftruncate64, TRUNCATE, size, (int fd, off64_t size), (fd, size))
ON_FD(sync_file_range, RANGE, at, (int fd, off64_t at, off64_t size, unsigned flags), (fd, at, size, flags))
ON_PATH(unlink, UNLINK, AT_FDCWD, (const char *path), (path))
ON_PATH(unlinkat, flags & AT_REMOVEDIR ? RMDIR : UNLINK, folder, (int folder, const char *path, int flags),
        (folder, path, flags))
ON_PATH(rmdir, RMDIR, AT_FDCWD, (const char *path), (path))
ON_PATH(mkdir, MKDIR, AT_FDCWD, (const char *path, mode_t mode), (path, mode))
ON_PATH(mkdirat, MKDIR, folder, (int folder, const char *path, mode_t mode), (folder, path, mode))

#define TRUNCATION(name, type)                                  \
  int name(const char *path, type size) {                       \
    char whole[PATH_MAX];                                       \
    const char *file = watched_at(AT_FDCWD, path, whole);       \
    if (!file) return NEXT(name)(path, size);                   \
    BEGIN;                                                      \
    int code = NEXT(name)(path, size);                          \
    if (!code) record(TRUNCATE, file, size, "", 0);             \
    END(code);                                                  \
  }
TRUNCATION(truncate, off_t)
TRUNCATION(truncate64, off64_t)

/* Renaming: the record's data are the new name. */
#define RENAMED(call, from_folder, to_folder)                        \
  char old[PATH_MAX], new[PATH_MAX];                                 \
  const char *file = watched_at(from_folder, from, old), *other = watched_at(to_folder, to, new); \
  if (!file || !other) return call;                                  \
  BEGIN;                                                             \
  int code = call;                                                   \
  if (!code) record(RENAME, file, 0, other, strlen(other));          \
  END(code)
int rename(const char *from, const char *to) { RENAMED(NEXT(rename)(from, to), AT_FDCWD, AT_FDCWD); }
int renameat(int one, const char *from, int two, const char *to) {
  RENAMED(NEXT(renameat)(one, from, two, to), one, two);
}
int renameat2(int one, const char *from, int two, const char *to, unsigned flags) {
  RENAMED(NEXT(renameat2)(one, from, two, to, flags), one, two);
}

/* Sending over TCP. It changes no file, but a crash may come between a change and a sending. */
ssize_t send(int fd, const void *data, size_t size, int flags) {
  int domain = 0;
  socklen_t length = sizeof domain;
  if (log_fd < 0 || getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &length) || (domain != AF_INET && domain != AF_INET6))
    return NEXT(send)(fd, data, size, flags);
  BEGIN;
  ssize_t done = NEXT(send)(fd, data, size, flags);
  if (done > 0) record(SEND, "", done, "", 0);
  END(done);
}
