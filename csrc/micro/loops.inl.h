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

// body(first, last) over [0, count) in even blocks; split_range says in how many. Items must be independent, so that
// the result does not depend on the blocks. The body is compiled once, and works on its own copy of what it captures:
// what it captures by value stays in registers.
template <class Body>
static void split(int64_t count, int64_t work, const Body& body) {
    split_range(
        count, work,
        [](void* context, int64_t first, int64_t last) {
            const Body own = *static_cast<const Body*>(context);
            own(first, last);
        },
        const_cast<void*>(static_cast<const void*>(&body)));
}

constexpr int64_t THREAD_MACS = 1 << 18;  // less work than this (about 5 us) is done by the caller

// Into how many blocks to cut `count` independent items: one where the work is small or one thread has to do it all.
static int64_t blocks_of(int64_t count, int64_t macs) {
    const int64_t most = threads() == 1 || macs < THREAD_MACS ? 1 : 2 * threads();
    return least(count, most);
}

// The threads that `blocks` of work occupy, and need memory of their own for.
static int64_t threads_for(int64_t blocks) { return least(blocks, threads()); }

// task(i, thread) for i in [0, count), on at most `most` threads, or on the caller where the work is small.
template <class Task>
static void each_block(int64_t count, int64_t macs, int64_t most, const Task& task) {
    parallel(count, macs >= THREAD_MACS ? most : 1, task);
}

// task(i) for i in [0, count), on the caller where the work is small.
template <class Task>
static void each_block(int64_t count, int64_t macs, const Task& task) {
    each_block(count, macs, count, [&](int64_t i, int64_t) { task(i); });
}
