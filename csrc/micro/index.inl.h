// Reading an efl_index, and the split of a loop over the pool. Every kernel body uses these.

static inline int64_t count_of(efl_index index, int64_t extent) { return index.ids ? index.count : extent; }
static inline int64_t id_of(efl_index index, int64_t i) { return index.ids ? index.ids[i] : i; }
static inline int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

// body(first, last) over [0, count) in blocks of about 32k elements, `work` elements per item: less is not worth waking a
// thread. Items must be independent, so that the result does not depend on the blocks.
template <class Body>
static void split(int64_t count, int64_t work, Body&& body) {
    const int64_t grain = 32768;
    const int64_t per = work >= grain ? 1 : grain / (work > 0 ? work : 1);
    if (count <= per || threads() == 1) return body(int64_t(0), count);
    parallel((count + per - 1) / per, [&](int64_t block) { body(block * per, least(count, (block + 1) * per)); });
}
