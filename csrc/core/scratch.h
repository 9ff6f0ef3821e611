// Packing memory: one 64-byte aligned block per thread that grows and is never given back while the thread lives,
// so that a training step allocates nothing after its first run.
#pragma once
#include <cstdint>

namespace efl {

// At least `bytes` bytes, 64-byte aligned, of the calling thread's block; nullptr if memory is out. A later call on the
// same thread may move the block, so ask once per kernel for all that it and the tasks of its parallel loops need.
// Content is undefined.
void* scratch(int64_t bytes);

}  // namespace efl
