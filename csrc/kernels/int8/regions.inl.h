// Regions: positions of a map whose windows reach the same taps. The codes of padding are zeros, and on a small map
// many taps meet zeros alone. Sums of a region leave such taps out, where this saves a fifth of the products. Otherwise
// the whole map is one region with all taps, whose results lie side by side.

constexpr int64_t MOST_REGIONS = 25, MOST_TAPS = 49;

// Consecutive positions of an axis, and the taps [first, end) that they reach.
struct Span {
    int64_t position, count, first, end;
};

struct Region {
    int64_t count;  // positions of an image
    GroupRuns groups;
    const int64_t *positions, *places;  // where their windows begin, and which places of a plane they are
    int32_t* starts;                    // of the sums of all outputs
    Span rows, columns;
};

// The spans of an axis; none where there would be more than `most`.
static int64_t spans_of(int64_t out, int64_t size, int64_t kernel, int64_t stride, int64_t pad, int64_t dilation,
                        Span* spans, int64_t most) {
    int64_t found = 0;
    for (int64_t p = 0; p < out; ++p) {
        const int64_t begin = p * stride - pad;
        int64_t first = 0, end = kernel;
        while (first < end && begin + first * dilation < 0) ++first;
        while (end > first && begin + (end - 1) * dilation >= size) --end;
        Span* const last = spans + found - 1;
        if (found && last->first == first && last->end == end) {
            ++last->count;
            continue;
        }
        if (found == most) return 0;
        spans[found++] = Span{p, 1, first, end};
    }
    return found;
}

struct Regions {
    Region of[MOST_REGIONS];
    int64_t count = 0;
    bool by_taps = true;  // whether a region may leave taps out

    Regions(const Int8Layer& l, int64_t images) {
        const efl_conv2d& c = l.c;
        Span rows[5], columns[5];
        int64_t down = 0, along = 0;
        if ((c.pad_h || c.pad_w) && l.taps() <= MOST_TAPS) {
            down = spans_of(l.out_h, c.height, c.kernel_h, c.stride_h, c.pad_h, c.dil_h, rows, 5);
            along = spans_of(l.out_w, c.width, c.kernel_w, c.stride_w, c.pad_w, c.dil_w, columns, 5);
        }
        int64_t work = 0;
        for (int64_t i = 0; i < down * along; ++i) {
            const Span &row = rows[i / along], &column = columns[i % along];
            of[count++] = region(l, row, column);
            work += tiles(images * row.count * column.count) * (row.end - row.first) * (column.end - column.first);
        }
        if (count && 5 * work <= 4 * tiles(images * l.positions()) * l.taps()) return;
        of[0] = region(l, Span{0, l.out_h, 0, c.kernel_h}, Span{0, l.out_w, 0, c.kernel_w});
        count = 1, by_taps = false;
    }

    static int64_t tiles(int64_t positions) { return up_to(positions, POSITIONS<MOST_VECTORS>); }

    static Region region(const Int8Layer& l, const Span& row, const Span& column) {
        const int64_t width = l.c.kernel_w, down = row.end - row.first, along = column.end - column.first;
        const bool is_one = along == width;
        const GroupRuns groups{(row.first * width + column.first) * l.blocks, is_one ? 1 : down,
                               (is_one ? down : 1) * along * l.blocks, width * l.blocks};
        return Region{row.count * column.count, groups, nullptr, nullptr, nullptr, row, column};
    }

    // Lists the positions region by region.
    void fill(const Int8Layer& l, int64_t* positions, int64_t* places, int32_t* starts) {
        for (int64_t r = 0; r < count; ++r) {
            Region& each = of[r];
            each.positions = positions, each.places = places, each.starts = starts + r * l.vectors * OUTS;
            for (int64_t i = 0; i < each.rows.count; ++i)
                for (int64_t j = 0; j < each.columns.count; ++j) {
                    const int64_t row = each.rows.position + i, column = each.columns.position + j;
                    *positions++ = (row * l.c.stride_h * l.cols + column * l.c.stride_w) * CODES;
                    *places++ = row * l.out_w + column;
                }
        }
    }
};

// The sums of weights of each output over `groups` groups from the packed ones on.
static void sum_weights(const Code* packed, int64_t groups, int32_t* to) {
    int32_t sums[OUTS * AT_ONCE];
    Code ones[CODES];
    for (int k = 0; k < CODES; ++k) ones[k] = 1;
    const Code* at[AT_ONCE];
    for (int k = 0; k < AT_ONCE; ++k) at[k] = ones;
    const Inputs one = load_inputs(at, 0);
    Sums found = no_sums();
    for (int64_t g = 0; g < groups; ++g) found = add_products(found, load_weights(packed + g * OUTS * CODES), one);
    store_sums(found, sums, OUTS);
    std::memcpy(to, sums, OUTS * sizeof(int32_t));
}

// Where the sums of vector v begin in each region: -OFFSET times the sums of the weights of its taps.
static void start_sums(const Int8Layer& l, const Regions& regions, int64_t v, const Code* packed) {
    int32_t taps[MOST_TAPS][OUTS];
    for (int64_t t = 0; OFFSET && regions.by_taps && t < l.taps(); ++t)
        sum_weights(packed + t * l.blocks * OUTS * CODES, l.blocks, taps[t]);
    for (int64_t r = 0; r < regions.count; ++r) {
        const Region& region = regions.of[r];
        int32_t sums[OUTS] = {}, *const starts = region.starts + v * OUTS;
        if (OFFSET && !regions.by_taps) sum_weights(packed, l.groups, sums);
        for (int64_t i = region.rows.first; OFFSET && regions.by_taps && i < region.rows.end; ++i)
            for (int64_t j = region.columns.first; j < region.columns.end; ++j)
                for (int m = 0; m < OUTS; ++m) sums[m] += taps[i * l.c.kernel_w + j][m];
        for (int m = 0; m < OUTS; ++m) starts[m] = -OFFSET * sums[m];
    }
}
