// The library's own thread pool: fork-join over a range of tasks, no work stealing, a short spin before parking.
#pragma once
#include <cstdint>

namespace efl {

// Calls task(context, i) once for each i in [0, count), spread over the pool; returns when all are done. Each i must
// write memory of its own, so that the result does not depend on who runs it. A nested or concurrent call runs on its
// caller.
void parallel_for(int64_t count, void (*task)(void* context, int64_t i), void* context);

int threads();

// The same with a lambda.
template <class Task>
void parallel(int64_t count, Task&& task) {
    auto call = [](void* context, int64_t i) { (*static_cast<Task*>(context))(i); };
    parallel_for(count, call, static_cast<void*>(&task));
}

}  // namespace efl
