// Ranges of independent items in blocks for the threads.
#include <algorithm>

#include "threads.h"

namespace efl {
namespace {

constexpr int64_t GRAIN = 8192;  // elements, from which a block is worth handing over

struct Blocks {
    Range* range;
    void* context;
    int64_t size, larger;  // the first `larger` blocks have one item more

    void run(int64_t i) const {
        const int64_t first = i * size + std::min(i, larger);
        range(context, first, first + size + (i < larger));
    }
};

}  // namespace

void split_range(int64_t count, int64_t work, Range* range, void* context) {
    const int64_t worth = work >= GRAIN ? count : count * (work > 0 ? work : 1) / GRAIN;
    const int64_t most = threads() == 1 ? 1 : std::min(std::min(count, worth), int64_t(2 * threads()));
    if (most < 2) return range(context, 0, count);
    const Blocks blocks{range, context, count / most, count % most};
    parallel(most, [&](int64_t i) { blocks.run(i); });
}

}  // namespace efl
