// Laying out packing memory: one function runs on a null base to count, then on the scratch block to place it.

constexpr int64_t LINE = 64 / int64_t(sizeof(float));  // floats in a cache line

struct Carve {
    uintptr_t base;
    int64_t used = 0;

    // `count` values, 64-byte aligned, with a vector to spare so that loads may run over the end.
    template <class T>
    T* take(int64_t count) {
        T* at = reinterpret_cast<T*>(base + uintptr_t(used));
        used += (count * int64_t(sizeof(T)) + int64_t(W * sizeof(float)) + 63) / 64 * 64;
        return at;
    }
};

// Calls layout(carve) to count, takes that much of the caller's scratch, calls it again to place the arrays. Returns
// false where there is no memory.
template <class Layout>
static bool place(Layout&& layout) {
    Carve count{0};
    layout(count);
    Carve real{reinterpret_cast<uintptr_t>(scratch(count.used))};
    if (!real.base) return false;
    layout(real);
    return true;
}
