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

// The same with a lambda task(i, thread).
template <class Lambda>
void parallel(int64_t count, int64_t most, Lambda&& lambda) {
    auto call = [](void* context, int64_t i, int64_t thread) { (*static_cast<Lambda*>(context))(i, thread); };
    parallel_for(count, most, call, static_cast<void*>(&lambda));
}

// The same with a lambda task(i), on all threads.
template <class Lambda>
void parallel(int64_t count, Lambda&& lambda) {
    parallel(count, count, [&](int64_t i, int64_t) { lambda(i); });
}

}  // namespace efl
