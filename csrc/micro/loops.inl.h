// Loops over independent items on the threads, and ranges cut into parts.

// A range cut into the fewest parts of at most `most`, as even as possible; larger parts come first.
struct Parts {
    int64_t total, count, least_size, larger;  // divided once: kernels ask for parts between short products
    Parts(int64_t total_, int64_t most) : Parts(into(total_, (total_ + most - 1) / most)) {}
    static Parts into(int64_t total, int64_t count) { return Parts(total, count, count ? total / count : 0); }
    // As few as all threads get the same number of, where one is not enough.
    static Parts shared(int64_t total, int64_t most) {
        const int64_t count = (total + most - 1) / most, each = (count + threads() - 1) / threads();
        return into(total, count < 2 ? count : least(total, each * threads()));
    }
    int64_t size(int64_t i) const { return least_size + (i < larger); }
    int64_t first(int64_t i) const { return i * least_size + least(i, larger); }

private:
    Parts(int64_t total_, int64_t count_, int64_t least_size_)
        : total(total_), count(count_), least_size(least_size_), larger(total_ - count_ * least_size_) {}
};

// body(first, last) over [0, count) in even blocks, `work` elements per item (some tenth of a nanosecond each): few
// enough that a block is worth handing over, many enough that one taken late holds nobody up. Items must be
// independent, so that the result does not depend on the blocks.
template <class Body>
static void split(int64_t count, int64_t work, Body&& body) {
    const int64_t grain = 8192, worth = work >= grain ? count : count * (work > 0 ? work : 1) / grain;
    const Parts blocks = Parts::into(count, threads() == 1 ? 1 : least(least(count, worth), 2 * threads()));
    if (blocks.count < 2) return body(int64_t(0), count);
    parallel(blocks.count, [&](int64_t i) { body(blocks.first(i), blocks.first(i) + blocks.size(i)); });
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
