// The function of small_product.inl.h.

void small_product(const Tiles& t, int64_t rows, int64_t columns) {
    if (columns == 0) return;
    const Parts panels(rows, TILE_ROWS);
    const int64_t vectors = (columns + W - 1) / W, tail = columns - (vectors - 1) * W;
    for (int64_t i = 0; i < panels.count; ++i) {
        const int64_t m0 = panels.first(i), m = panels.size(i);
        const Parts tiles(vectors, vectors_of_tile(int(m)));
        Tiles p = t;
        p.a += m0 * (t.by_rows ? t.a_pitch : 1), p.c += m0 * t.c_pitch;
        for (int64_t first = 0, last; first < tiles.count; first = last) {  // runs of tiles of one size
            const int64_t size = tiles.size(first);
            last = first < tiles.larger ? tiles.larger : tiles.count;
            p.b_step = size * W;
            multiply(p, m, size, last - first, last == tiles.count ? tail : W);
            const int64_t passed = (last - first) * size * W;
            p.b += passed, p.c += passed, p.start += p.start ? passed : 0;
        }
    }
}
