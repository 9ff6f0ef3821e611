/* Counts what a process asks of malloc and its kin, all threads together. Preloaded by test_steady.py; needs glibc. */

#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>

void* __libc_malloc(size_t size);
void* __libc_calloc(size_t count, size_t size);
void* __libc_realloc(void* block, size_t size);
void* __libc_memalign(size_t alignment, size_t size);

static atomic_long count;

long allocations(void) { return atomic_load(&count); }

void* malloc(size_t size) {
    atomic_fetch_add(&count, 1);
    return __libc_malloc(size);
}

void* calloc(size_t number, size_t size) {
    atomic_fetch_add(&count, 1);
    return __libc_calloc(number, size);
}

void* realloc(void* block, size_t size) {
    atomic_fetch_add(&count, 1);
    return __libc_realloc(block, size);
}

void* aligned_alloc(size_t alignment, size_t size) {
    atomic_fetch_add(&count, 1);
    return __libc_memalign(alignment, size);
}

int posix_memalign(void** block, size_t alignment, size_t size) {
    *block = aligned_alloc(alignment, size);
    return *block ? 0 : ENOMEM;
}
