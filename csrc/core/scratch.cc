// Two grow-only blocks per thread, freed when the thread ends; the total is what efl_scratch_bytes reports.
#include "scratch.h"

#include <atomic>
#include <cstdlib>

#include "abi.h"

namespace efl {
namespace {

std::atomic<int64_t> total{0};

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
        const int64_t page = 4096;
        const int64_t rounded = bytes > 0 ? (bytes + page - 1) / page * page : page;
        if (rounded < bytes || posix_memalign(&memory, 64, size_t(rounded))) {
            memory = nullptr;
            return nullptr;
        }
        size = rounded;
        total.fetch_add(size, std::memory_order_relaxed);
        return memory;
    }
};

thread_local Block own, shared;

}  // namespace

void* scratch(int64_t bytes) { return own.at_least(bytes); }
void* shared_scratch(int64_t bytes) { return shared.at_least(bytes); }

}  // namespace efl

extern "C" efl_int64 efl_scratch_bytes(void) { return efl::total.load(std::memory_order_relaxed); }
