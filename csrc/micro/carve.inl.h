// Laying out packing memory: the same function runs once on a null base to count and once on the scratch block to place.

struct Carve {
    uintptr_t base;
    int64_t used = 0;

    // `count` values, 64-byte aligned, with a word to spare so that loads may run over the end.
    template <class T>
    T* take(int64_t count) {
        T* at = reinterpret_cast<T*>(base + uintptr_t(used));
        used += (count * int64_t(sizeof(T)) + int64_t(W * sizeof(float)) + 63) / 64 * 64;
        return at;
    }
};

// Calls layout(carve) to count, takes that much of the caller's scratch, calls it again to place. False: no memory.
template <class Layout>
static bool place(Layout&& layout) {
    Carve count{0};
    layout(count);
    Carve real{reinterpret_cast<uintptr_t>(scratch(count.used))};
    if (!real.base) return false;
    layout(real);
    return true;
}

constexpr int64_t POOL_MACS = 1 << 18;  // less work than this (about 5 us) is done by the caller

// Into how many blocks to cut `count` independent items: one where the work is small or one thread has to do it all.
static int64_t blocks_of(int64_t count, int64_t macs) {
    const int64_t most = threads() == 1 || macs < POOL_MACS ? 1 : 2 * threads();
    return least(count, most);
}

static inline void copy_floats(float* to, const float* from, int64_t n) {
    int64_t i = 0;
    for (; i + W <= n; i += W) store(to + i, load(from + i));
    if (i == n) return;
    if (n >= W) return store(to + n - W, load(from + n - W));  // overlaps the last word
    for (; i < n; ++i) to[i] = from[i];
}

static inline void zero_floats(float* to, int64_t n) { std::memset(to, 0, sizeof(float) * size_t(n)); }

// task(i) for i in [0, count), on the caller where the work is small.
template <class Task>
static void each_block(int64_t count, int64_t macs, const Task& task) {
    if (macs >= POOL_MACS) return parallel(count, [&](int64_t i) { task(i); });
    for (int64_t i = 0; i < count; ++i) task(i);
}
