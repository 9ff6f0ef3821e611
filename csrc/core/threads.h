// The library's own thread pool: fork-join over a range of tasks, a short spin before parking.
#pragma once
#include <cstdint>

namespace efl {

using Task = void(void* context, int64_t i, int64_t thread);

// Calls task(context, i, thread) once for each i in [0, count), spread over at most `most` threads, which are numbered
// from 0; returns when all are done. Each i must write memory of its own, or of its thread, so that the result does not
// depend on who runs it. A nested or concurrent call runs on its caller, as thread 0.
void parallel_for(int64_t count, int64_t most, Task* task, void* context);

int threads();

// parallel_for with a lambda task(i, thread).
template <class Lambda>
void parallel(int64_t count, int64_t most, const Lambda& lambda) {
    auto call = [](void* context, int64_t i, int64_t thread) { (*static_cast<const Lambda*>(context))(i, thread); };
    parallel_for(count, most, call, const_cast<void*>(static_cast<const void*>(&lambda)));
}

// The same with a lambda task(i), on all threads.
template <class Lambda>
void parallel(int64_t count, const Lambda& lambda) {
    parallel(count, count, [&](int64_t i, int64_t) { lambda(i); });
}

// Calls range(context, first, last) over [0, count) in even blocks, `work` elements per item (some tenth of a
// nanosecond each): few enough that a block is worth handing over, many enough that one taken late holds nobody up.
using Range = void(void* context, int64_t first, int64_t last);
void split_range(int64_t count, int64_t work, Range* range, void* context);

}  // namespace efl
