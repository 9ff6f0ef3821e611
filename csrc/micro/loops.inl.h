// Loops over independent items on the threads, and ranges cut into parts.

// A range cut into the fewest parts of at most `most`, as even as possible; larger parts come first.
struct Parts {
    int64_t total, count, least_size, larger;  // divided once: kernels ask for parts between short products
    Parts(int64_t total_, int64_t most)
        : total(total_), count((total_ + most - 1) / most), least_size(count ? total / count : 0),
          larger(count ? total % count : 0) {}
    int64_t size(int64_t i) const { return least_size + (i < larger); }
    int64_t first(int64_t i) const { return i * least_size + least(i, larger); }
};

// body(first, last) over [0, count) in blocks of about 32k elements, `work` elements per item: less is not worth waking
// a thread. Items must be independent, so that the result does not depend on the blocks.
template <class Body>
static void split(int64_t count, int64_t work, Body&& body) {
    const int64_t grain = 32768;
    const int64_t per = work >= grain ? 1 : grain / (work > 0 ? work : 1);
    if (count <= per || threads() == 1) return body(int64_t(0), count);
    parallel((count + per - 1) / per, [&](int64_t block) { body(block * per, least(count, (block + 1) * per)); });
}

constexpr int64_t THREAD_MACS = 1 << 18;  // less work than this (about 5 us) is done by the caller

// Into how many blocks to cut `count` independent items: one where the work is small or one thread has to do it all.
static int64_t blocks_of(int64_t count, int64_t macs) {
    const int64_t most = threads() == 1 || macs < THREAD_MACS ? 1 : 2 * threads();
    return least(count, most);
}

// task(i) for i in [0, count), on the caller where the work is small.
template <class Task>
static void each_block(int64_t count, int64_t macs, const Task& task) {
    if (macs >= THREAD_MACS) return parallel(count, [&](int64_t i) { task(i); });
    for (int64_t i = 0; i < count; ++i) task(i);
}
