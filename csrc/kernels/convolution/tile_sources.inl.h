// The points of the source cells under Winograd's tiles (correlate_tiles.inl.h), whose lanes are tiles of a row, or
// images.

// The points of a plane row, along it: those of the tile in lane l are made of the cells from 2 l on.
static inline void row_points(const float* from, vf* d) {
    const vf a = load(from), b = load(from + W), c = load(from + 2), e = load(from + 2 + W);
    d[0] = evens(a, b), d[1] = odds(a, b), d[2] = evens(c, e), d[3] = odds(c, e);
    input_points(d, 1);
}

// The tiles of a plane, `rows` by `width`: [point][tile]. Vectors of a row overlap where they would not fit; a row
// shorter than a vector runs into the next, which comes later. Up to W floats past the last row are overwritten.
static void transform_plane(const float* plane, int64_t pitch, int64_t rows, int64_t width, float* to, int64_t step) {
    for (int64_t q = 0; q < width; q += W) {
        const int64_t first = width < W ? 0 : least(q, width - W);
        const float* from = plane + 2 * first;
        float* point = to + first;
        vf upper[8], lower[8];  // rows two and two; a tile shares its lower ones with the tile below
        row_points(from, upper);
        row_points(from + pitch, upper + 4);
        for (int64_t r = 0; r < rows; ++r, point += width) {
            from += 2 * pitch;
            row_points(from, lower);
            row_points(from + pitch, lower + 4);
            EFL_UNROLL
            for (int f = 0; f < 4; ++f) {
                store(point + f * step, sub(upper[f], lower[f]));
                store(point + (4 + f) * step, add(upper[4 + f], lower[f]));
                store(point + (8 + f) * step, sub(lower[f], upper[4 + f]));
                store(point + (12 + f) * step, sub(upper[4 + f], lower[4 + f]));
            }
            EFL_UNROLL
            for (int f = 0; f < 8; ++f) upper[f] = lower[f];
        }
    }
}

// The tiles of sources [first, last) in a chunk: [point][source][tile].
static void fill_row_tiles(const Winograd<2>& w, int64_t first, int64_t last, int64_t chunk, float* plane,
                           float* tiles) {
    const Correlation& c = w.c;
    const Axis &rows = c.planes.rows, &cols = c.planes.cols;
    const int64_t source_plane = rows.source * cols.source, width = w.tiling.cols;
    const Axis plane_cols = forward_axis(cols.source, 2 * width, 3, 1, -cols.origin, 1);
    for (int64_t s = first; s < last; ++s)
        clear_spare_tiles(tiles + s * w.pitch, w.tiling.tiles(chunk), POINTS, w.tiles_step());
    w.tiling.each_strip(chunk, [&](const Strip& strip) {
        const Planes planes(forward_axis(rows.source, 2 * strip.rows, 3, 1, -rows.origin - 2 * strip.first, 1),
                            plane_cols);
        const float* source = c.source + strip.image * c.source_channels * source_plane;
        CellBlock block;
        const CellCopies cells = planes.copies(&block);
        zero_floats(plane, w.plane_size());
        for (int64_t s = first; s < last; ++s) {
            cells.fill(source + id_of(c.sources, s) * source_plane, plane);
            transform_plane(plane, planes.pitch, strip.rows, width, tiles + s * w.pitch, w.tiles_step());
        }
        tiles += strip.rows * width;
    });
}

// to[i * W + l] = from[l][i] for i < count, squares first: planes are far apart, often by a multiple of what the sets
// of a first cache hold, so a line is better read once. Up to W floats past the last cell are overwritten.
static void put_images_last(const float** from, int64_t count, float* to) {
    for (; count >= W; count -= W) {
        vf square[W];
        EFL_UNROLL
        for (int l = 0; l < W; ++l) square[l] = load(from[l]), from[l] += W;
        turn(square);
        EFL_UNROLL
        for (int l = 0; l < W; ++l, to += W) store(to, square[l]);
    }
    if (count > 0) interleave(from, W, count, to, W);
}

// The cells of a source under a strip, images last, in a frame of zeros: [row][column][image].
template <int EDGE>
static void fill_cells(const Winograd<EDGE>& w, const Strip& strip, int64_t source, float* cells) {
    const Axis &rows = w.c.planes.rows, &cols = w.c.planes.cols;
    const int64_t first = w.vectors.first(strip.image), width = w.tiling.cols / W * EDGE + 2,
                  top = rows.origin + EDGE * strip.first, left = cols.origin;
    const int64_t begin = least(left < 0 ? -left : 0, width), skip = left > 0 ? left : 0,
                  count = skip < cols.source ? least(width - begin, cols.source - skip) : 0, end = begin + count;
    const float* image[W];
    for (int64_t l = 0; l < W; ++l)
        image[l] = w.c.source + ((first + least(l, w.vectors.size(strip.image) - 1)) * w.c.source_channels + source) *
                                    rows.source * cols.source;
    for (int64_t r = 0; r < EDGE * strip.rows + 2; ++r, cells += width * W) {
        if (top + r < 0 || top + r >= rows.source) {
            zero_floats(cells, width * W);
            continue;
        }
        const float* from[W];
        for (int64_t l = 0; l < W; ++l) from[l] = image[l] + (top + r) * cols.source + skip;
        zero_floats(cells, begin * W);
        put_images_last(from, count, cells + begin * W);
        zero_floats(cells + end * W, (width - end) * W);
    }
}

// The points of a strip's tiles of one source, whose cells are vectors of images: tile i goes to vector[i].
static inline void strip_points(const Winograd<2>& w, const Strip& strip, const float* cells, float*,
                                const Vector* vector, float* to) {
    const int64_t step = w.tiles_step(), tile_cols = w.tiling.cols / W, width = 2 * tile_cols + 2;
    for (int64_t i = 0; i < strip.rows * tile_cols; ++i) {
        const float* from = cells + (i / tile_cols * width + i % tile_cols) * 2 * W;
        vf d[POINTS];
        EFL_UNROLL
        for (int f = 0; f < POINTS; ++f) d[f] = load(from + (f / 4 * width + f % 4) * W);
        EFL_UNROLL
        for (int k = 0; k < 4; ++k) input_points(d + 4 * k, 1);
        EFL_UNROLL
        for (int k = 0; k < 4; ++k) input_points(d + k, 4);
        EFL_UNROLL
        for (int f = 0; f < POINTS; ++f) store(to + vector[i].from + f * step, d[f]);
    }
}

// The same of 36 points, which lie on as many pages: those of a few tiles go to one page before the next. The points
// along rows come first, [row][tile][point].
static inline void strip_points(const Winograd<4>& w, const Strip& strip, const float* cells, float* lines,
                                const Vector* vector, float* to) {
    constexpr int64_t LINE_FLOATS = FOUR_SPAN * W;
    const int64_t step = w.tiles_step(), tile_cols = w.tiling.cols / W, pitch = tile_cols * LINE_FLOATS;
    float* line = lines;
    for (int64_t r = 0; r < 4 * strip.rows + 2; ++r, cells += 2 * W)
        for (int64_t q = 0; q < tile_cols; ++q, cells += 4 * W, line += LINE_FLOATS) put_inputs(cells, W, line, W);
    for (int64_t k = 0; k < FOUR_SPAN; ++k)
        for (int64_t r = 0; r < strip.rows; ++r)
            for (int64_t q = 0; q < tile_cols; ++q) {
                const float* from = lines + 4 * r * pitch + q * LINE_FLOATS + k * W;
                put_inputs(from, pitch, to + vector[r * tile_cols + q].from + k * step, FOUR_SPAN * step);
            }
}

// The tiles of sources [first, last) in a chunk, a vector of images for each position: [point][source][tile].
template <int EDGE>
static void fill_image_tiles(const Winograd<EDGE>& w, int64_t first, int64_t last, int64_t chunk, float* cells,
                             float* tiles) {
    const Vector* vector = w.vector;
    w.tiling.each_strip(chunk, [&](const Strip& strip) {
        for (int64_t s = first; s < last; ++s) {
            fill_cells(w, strip, id_of(w.c.sources, s), cells);
            strip_points(w, strip, cells, cells + w.cells_size(), vector, tiles + s * w.source_step());
        }
        vector += strip.rows * w.tiling.cols / W;
    });
}

template <int EDGE>
static void fill_tiles(const Winograd<EDGE>& w, int64_t first, int64_t last, int64_t chunk, float* plane,
                       float* tiles) {
    if constexpr (EDGE == 2)
        if (!w.by_images) return fill_row_tiles(w, first, last, chunk, plane, tiles);
    fill_image_tiles(w, first, last, chunk, plane, tiles);
}
