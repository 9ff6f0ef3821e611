// A grow-only block per thread, freed when the thread ends; the total is what efl_scratch_bytes reports.
#include "scratch.h"

#include <atomic>
#include <cstdlib>

#include "abi.h"

namespace efl {
namespace {

std::atomic<int64_t> total{0};

int64_t whole_pages(int64_t bytes) {
    const int64_t page = 4096;
    return bytes > 0 ? (bytes + page - 1) / page * page : page;
}

struct Block {
    void* memory = nullptr;
    int64_t size = 0;

    ~Block() { release(); }

    void release() {
        std::free(memory);
        total.fetch_sub(size, std::memory_order_relaxed);
        memory = nullptr;
        size = 0;
    }

    void* at_least(int64_t bytes) {
        if (bytes <= size && memory) return memory;
        release();
        const int64_t rounded = whole_pages(bytes);
        if (rounded < bytes || posix_memalign(&memory, 64, size_t(rounded))) {
            memory = nullptr;
            return nullptr;
        }
        size = rounded;
        total.fetch_add(size, std::memory_order_relaxed);
        return memory;
    }
};

thread_local Block own;
thread_local bool counting = false;
thread_local int64_t counted = 0;

}  // namespace

void* scratch(int64_t bytes) {
    if (!counting) return own.at_least(bytes);
    if (whole_pages(bytes) > counted) counted = whole_pages(bytes);
    return nullptr;
}

}  // namespace efl

efl_int64 efl_count_scratch(efl_int32 on) {
    const int64_t most = efl::counted;
    efl::counting = on != 0;
    if (on) efl::counted = 0;
    return most;
}

efl_int64 efl_scratch_bytes(void) { return efl::total.load(std::memory_order_relaxed); }
