/* A preloaded library that steps a process's clock while it runs. It reads the steps from the file that STEPPED_CLOCK names.
   File times from the kernel are shown as if the machine's clock had been stepped. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

struct step { int64_t from, offset; }; /* from this real time on, in nanoseconds: so many seconds */
struct steps { int64_t count; struct step step[1023]; };

static const struct steps *steps;

__attribute__((constructor)) static void open_steps(void) {
    const char *path = getenv("STEPPED_CLOCK");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0)
        return;
    void *mapped = mmap(NULL, sizeof(struct steps), PROT_READ, MAP_SHARED, file, 0);
    if (mapped != MAP_FAILED)
        steps = mapped;
    close(file);
}

static void shift(struct timespec *moment) {
    int64_t at = (int64_t)moment->tv_sec * 1000000000 + moment->tv_nsec, offset = 0;
    for (int64_t i = 0; steps && i < steps->count; i++)
        if (steps->step[i].from <= at)
            offset = steps->step[i].offset;
    moment->tv_sec += offset;
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    int failed = (int)syscall(SYS_clock_gettime, clock, now);
    if (!failed && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
        shift(now);
    return failed;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    struct timespec precise;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &precise);
    now->tv_sec = precise.tv_sec;
    now->tv_usec = precise.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *now) {
    struct timespec precise;
    clock_gettime(CLOCK_REALTIME, &precise);
    if (now)
        *now = precise.tv_sec;
    return precise.tv_sec;
}

#define STAT(name, parameters, arguments)                                      \
    int name parameters {                                                      \
        int(*real) parameters = dlsym(RTLD_NEXT, #name);                       \
        int failed = real arguments;                                           \
        if (!failed) {                                                         \
            shift(&status->st_atim);                                           \
            shift(&status->st_mtim);                                           \
            shift(&status->st_ctim);                                           \
        }                                                                      \
        return failed;                                                         \
    }
#define ALL_OF(suffix, kind)                                                                           \
    STAT(stat##suffix, (const char *restrict path, struct kind *restrict status), (path, status))      \
    STAT(lstat##suffix, (const char *restrict path, struct kind *restrict status), (path, status))     \
    STAT(fstat##suffix, (int file, struct kind * status), (file, status))                              \
    STAT(fstatat##suffix,                                                                              \
         (int folder, const char *restrict path, struct kind *restrict status, int flags),             \
         (folder, path, status, flags))
ALL_OF(, stat)
ALL_OF(64, stat64)
