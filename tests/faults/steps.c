/* Counts the steps of a process that outlive it: changes to files of one directory, and bytes sent over TCP. Ends the
 * process, or fills its disk for a while, at the n-th. Loaded by LD_PRELOAD (steps.py); Linux and glibc.
 *
 *   STEPS_DIR   absolute; files outside it do not count
 *   STEPS_LOG   a line "open|write|truncate|fsync|rename|unlink|send NAME" per step, written before it happens
 *   STEPS_KILL  the step before which the process gets SIGKILL: its number from 0, or its line, for the first such step,
 *               or "LINE +N", for the N-th step after that one
 *   STEPS_KILL_AFTER  the sending right after which it does
 *   STEPS_STOP  the step before which it gets SIGSTOP
 *   STEPS_FULL  the step from which on creating and writing fail with ENOSPC, for STEPS_FULL_S seconds
 *
 * The index of SQLite's log (-shm) is left out: it is rebuilt, never read, after a crash.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

struct wanted {
  char line[PATH_MAX]; /* empty: none, or its number is known */
  long beyond, at;     /* at: its number; -1 as long as that is not known */
};

static atomic_long taken;
static const char *directory;
static struct wanted deadly, deadly_after, pausing, filling;
static double full_s, full_since;
static int log_fd = -1;

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec + 1e-9 * t.tv_nsec;
}

static struct wanted parse(const char *text) {
  struct wanted found = {.at = -1};
  if (!text) return found;
  char *end;
  long number = strtol(text, &end, 10);
  if (!*end) {
    found.at = number;
    return found;
  }
  snprintf(found.line, sizeof found.line, "%s", text);
  char *beyond = strstr(found.line, " +");
  if (beyond) {
    found.beyond = atol(beyond + 2);
    *beyond = 0;
  }
  return found;
}

/* Whether this step is the wanted one. */
static int is(struct wanted *wanted, long at, const char *line) {
  if (wanted->at < 0 && wanted->line[0] && !strcmp(wanted->line, line)) wanted->at = at + wanted->beyond;
  return wanted->at == at;
}

__attribute__((constructor)) static void begin(void) {
  directory = getenv("STEPS_DIR");
  deadly = parse(getenv("STEPS_KILL"));
  deadly_after = parse(getenv("STEPS_KILL_AFTER"));
  pausing = parse(getenv("STEPS_STOP"));
  filling = parse(getenv("STEPS_FULL"));
  if (getenv("STEPS_FULL_S")) full_s = atof(getenv("STEPS_FULL_S"));
  if (getenv("STEPS_LOG"))
    log_fd = syscall(SYS_openat, AT_FDCWD, getenv("STEPS_LOG"), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
}

/* A name without the folder of a device's run, runs/NAME, whose name is another in each run. */
static const char *in_run(const char *name) {
  if (strncmp(name, "runs/", 5)) return name;
  const char *rest = strchr(name + 5, '/');
  return rest ? rest + 1 : ".";
}

/* The file's name without the directory, or NULL if it does not count. */
static const char *watched(const char *path) {
  size_t length = directory ? strlen(directory) : 0, end = strlen(path);
  if (!length || strncmp(path, directory, length)) return NULL;
  if (path[length] == 0) return ".";
  if (path[length] != '/' || !strcmp(path + end - 4, "-shm")) return NULL;
  return in_run(path + length + 1);
}

static const char *watched_fd(int fd, char *path) {
  char link[64];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  ssize_t length = readlink(link, path, PATH_MAX - 1);
  if (length < 0) return NULL;
  path[length] = 0;
  return watched(path);
}

/* One step: counts it, logs it, dies or stops before it if it is the one. Its number. */
static long step(const char *what, const char *name) {
  char line[PATH_MAX + 32];
  long at = atomic_fetch_add(&taken, 1);
  int length = snprintf(line, sizeof line, "%s %s\n", what, name);
  if (log_fd >= 0) syscall(SYS_write, log_fd, line, length);
  line[length - 1] = 0;
  if (is(&deadly, at, line)) kill(getpid(), SIGKILL);
  if (is(&pausing, at, line)) kill(getpid(), SIGSTOP);
  if (is(&filling, at, line)) full_since = now();
  is(&deadly_after, at, line); /* the sending itself looks at its number */
  return at;
}

/* As step, for one that a full disk refuses: true, and errno set, if it is full. */
static int refused(const char *what, const char *name) {
  step(what, name);
  if (!full_since || now() > full_since + full_s) return 0;
  errno = ENOSPC;
  return 1;
}

#define NEXT(name) ((__typeof__(name) *)dlsym(RTLD_NEXT, #name))

#define OPEN(name)                                                                                       \
  int name(const char *path, int flags, ...) {                                                           \
    va_list rest;                                                                                        \
    va_start(rest, flags);                                                                               \
    mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(rest, mode_t) : 0;                              \
    va_end(rest);                                                                                        \
    const char *file = watched(path);                                                                    \
    int makes = flags & O_TRUNC || (flags & O_CREAT && syscall(SYS_faccessat, AT_FDCWD, path, F_OK));    \
    if (file && makes && refused("open", file)) return -1;                                               \
    return NEXT(name)(path, flags, mode);                                                                \
  }
OPEN(open)
OPEN(open64)

/* A function of a descriptor whose file changes. */
#define ON_FD(type, name, what, step_of, parameters, arguments)                  \
  type name parameters {                                                         \
    char path[PATH_MAX];                                                         \
    const char *file = watched_fd(fd, path);                                     \
    if (file && step_of(what, file)) return -1;                                  \
    return NEXT(name) arguments;                                                 \
  }
#define HARMLESS(what, file) (step(what, file), 0)
ON_FD(ssize_t, write, "write", refused, (int fd, const void *data, size_t size), (fd, data, size))
ON_FD(ssize_t, pwrite, "write", refused, (int fd, const void *data, size_t size, off_t at), (fd, data, size, at))
ON_FD(ssize_t, pwrite64, "write", refused, (int fd, const void *data, size_t size, off64_t at), (fd, data, size, at))
ON_FD(int, ftruncate, "truncate", HARMLESS, (int fd, off_t size), (fd, size))
ON_FD(int, ftruncate64, "truncate", HARMLESS, (int fd, off64_t size), (fd, size))
ON_FD(int, fsync, "fsync", HARMLESS, (int fd), (fd))
ON_FD(int, fdatasync, "fsync", HARMLESS, (int fd), (fd))

int rename(const char *from, const char *to) {
  const char *file = watched(to);
  if (file) step("rename", file);
  return NEXT(rename)(from, to);
}

int unlink(const char *path) {
  const char *file = watched(path);
  if (file) step("unlink", file);
  return NEXT(unlink)(path);
}

/* The number of the step that a sending is; -1 if it does not count: asyncio wakes itself over a socket too. */
static long sending(int fd) {
  int domain = 0;
  socklen_t size = sizeof domain;
  if (!directory || getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &size)) return -1;
  return domain == AF_INET || domain == AF_INET6 ? step("send", "to peer") : -1;
}

ssize_t send(int fd, const void *data, size_t size, int flags) {
  long at = sending(fd);
  ssize_t sent = NEXT(send)(fd, data, size, flags);
  if (at >= 0 && at == deadly_after.at) kill(getpid(), SIGKILL);
  return sent;
}
