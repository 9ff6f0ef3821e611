// A product of matrices so small that nothing is packed for it: the tiles of tile.inl.h over a right side whose rows
// are whole vectors, all in one first or second cache.

static constexpr int64_t whole_vectors(int64_t n) { return (n + W - 1) / W * W; }

// `t` has everything but how the right side's tiles lie.
void small_product(const Tiles& t, int64_t rows, int64_t columns);
