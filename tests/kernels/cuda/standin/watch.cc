// See watch.h: the functions that code compiled with -fsanitize=thread calls, and what the emulation tells.
#include "watch.h"

#include "emulate.h"

extern const char __ehdr_start __attribute__((visibility("hidden"))), _end __attribute__((visibility("hidden")));

namespace {

using emulate::Dim;

struct Watcher : emulate::Listener {
    bool is_on = false;
    const char *arguments = nullptr, *arguments_end = nullptr;

    Watcher() { emulate::listener = this; }

    void launch_begins(const emulate::Kernel& kernel, Dim grid, Dim block, const void* given) override {
        emulate::products = 0;
        arguments = static_cast<const char*>(given);
        arguments_end = arguments + kernel.arguments;
        watch::races_launch_begins();
        watch::traffic_launch_begins(kernel.name, grid.x * grid.y * grid.z, block.x * block.y * block.z);
        is_on = true;
    }
    void block_begins() override { watch::races_block_begins(); }
    void barrier() override {
        watch::races_barrier();
        watch::traffic_barrier();
    }
    std::string launch_ends() override {
        is_on = false;
        watch::traffic_launch_ends(emulate::products);
        return watch::first_race();
    }

    // A kernel's locals, its arguments, constants and the like are no traffic.
    void access(const void* place, unsigned size, bool is_store, const void* code) {
        const char* const at = static_cast<const char*>(place);
        if (!is_on || size == 0 || emulate::is_local(at) || (at >= arguments && at < arguments_end)) return;
        const bool is_shared = emulate::is_shared(at);
        if (!is_shared && at >= &__ehdr_start && at < &_end) return;
        const watch::Access made{is_shared ? watch::Space::SHARED : watch::Space::GLOBAL, is_store, uintptr_t(at), size,
                                 uintptr_t(code) - uintptr_t(&__ehdr_start)};
        watch::races_follow(made, emulate::running_thread());
        watch::traffic_count(made, emulate::running_thread());
    }
} watcher;

}  // namespace

unsigned long long emulate::products = 0;

float4::float4(const float4& from) : x(from.x), y(from.y), z(from.z), w(from.w) {
    watcher.access(&from, sizeof from, false, __builtin_return_address(0));
}

float4& float4::operator=(const float4& from) {
    watcher.access(&from, sizeof from, false, __builtin_return_address(0));
    watcher.access(this, sizeof from, true, __builtin_return_address(0));
    x = from.x, y = from.y, z = from.z, w = from.w;
    return *this;
}

#define SEES(size)                                                                                               \
    void __tsan_read##size(void* at) { watcher.access(at, size, false, __builtin_return_address(0)); }           \
    void __tsan_write##size(void* at) { watcher.access(at, size, true, __builtin_return_address(0)); }           \
    void __tsan_unaligned_read##size(void* at) { watcher.access(at, size, false, __builtin_return_address(0)); } \
    void __tsan_unaligned_write##size(void* at) { watcher.access(at, size, true, __builtin_return_address(0)); }

extern "C" {
SEES(1)
SEES(2)
SEES(4)
SEES(8)
SEES(16)
void __tsan_read_range(void* at, size_t size) {
    watcher.access(at, unsigned(size), false, __builtin_return_address(0));
}
void __tsan_write_range(void* at, size_t size) {
    watcher.access(at, unsigned(size), true, __builtin_return_address(0));
}
void __tsan_init() {}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}
}
