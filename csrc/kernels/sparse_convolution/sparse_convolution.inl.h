// Masked convolution: forward, input gradient and weight gradient over the structures of core/sparse_convolution.h.
//
// Threads take tiles and parts of the rows, or for weights cells of the structure; no sum is split between them.

// A band of results of W images.
struct SparseBand {
    int64_t first, rows;
};

static SparseBand band_of(const SparseLayout& l, int64_t first) {
    return {.first = first, .rows = least(l.band, l.down.positions - first)};
}

static SparseTiles tiles_of(const SparseLayout& l, int64_t rows, int64_t cells) {
    const int64_t cols = l.along.positions;
    if (l.whole) return SparseTiles(rows, cols, rows, cols, rows * cols);
    return SparseTiles(rows, cols, SPARSE_ROWS, SPARSE_COLS, cells);
}

static SparseLists lists_at(const SparseStructure& s, int64_t part, int64_t block, const float* values) {
    const SparseCell& cell = s.cell(part, block);
    return {.list = s.lists(part, block),
            .runs = s.runs() + cell.run,
            .lists = cell.lists,
            .list_size = 2 * s.layout.list,
            .values = values ? values + cell.slot : nullptr,
            .cells = nullptr,
            .pitch = s.layout.pitch * W,
            .results = nullptr,
            .step = 0};
}

// A correlation's packing memory. `results` and `vectors` are of the first task; the arrays of the other tasks follow.
struct SparseMemory {
    SparsePositions positions;
    float *zeros, *cells, *results;
    int32_t* vectors;
    int64_t tile_floats, task_floats, task_vectors;

    static SparseMemory of(Carve& carve, const SparseLayout& l, const SparseTiles& tiles, int64_t tasks) {
        SparseMemory m;
        m.tile_floats = l.part * tiles.step;
        m.task_floats = tiles.abreast * m.tile_floats;
        m.task_vectors = tiles.abreast * tiles.step / W * l.along.row_phases;
        m.positions = {.rows = carve.take<int64_t>(l.down.source), .cols = carve.take<int64_t>(l.along.source)};
        m.zeros = carve.take<float>(l.down.source * l.along.source);
        m.cells = carve.take<float>(l.channels * l.plane * W);
        m.results = carve.take<float>(m.task_floats * tasks);
        m.vectors = carve.take<int32_t>(m.task_vectors * tasks);
        return m;
    }
};

static void start_results(const float* bias, int64_t count, int64_t step, float* results) {
    for (int64_t i = 0; i < count; ++i) {
        const vf start = bias ? set1(bias[i]) : zero();
        for (int64_t k = 0; k < step; k += W) store(results + i * step + k, start);
    }
}

static AddLists lists_adder(const SparseLayout& l, int64_t rows, int64_t cols) {
    if (!l.whole) return lists_of<SPARSE_ROWS, SPARSE_COLS>(rows, cols);
    return cols == 2 ? add_maps<2> : add_maps<4>;
}

// A strip of the results of a part's rows, of which `cells` are at the first position.
static void correlate_strip(const SparseStructure& s, const float* values, const float* bias, const float* cells,
                            const SparseTiles& tiles, const SparseStrip& strip, int64_t part, int64_t tile_floats,
                            float* results) {
    const SparseLayout& l = s.layout;
    const float* const starts = bias ? bias + part * l.part : nullptr;
    for (int64_t t = 0; t < strip.tiles; ++t, results += tile_floats) {
        const int64_t tile = strip.first + t;
        const AddLists add_to = lists_adder(l, strip.rows, tiles.cols.size(tile));
        start_results(starts, l.part_rows(part), tiles.step, results);
        for (int64_t block = 0; block < l.blocks; ++block) {
            SparseLists lists = lists_at(s, part, block, values);
            lists.cells = cells + (block * l.block * l.plane + strip.down * l.pitch + tiles.cols.first(tile)) * W;
            lists.results = results, lists.step = tiles.step;
            add_to(lists);
        }
    }
}

// All strips of a band, by `tasks` tasks.
static void correlate_band(const SparseStructure& s, const float* values, const float* bias, const SparseBand& band,
                           const SparseMemory& memory, const float* cells, int64_t tasks,
                           const SparseTargets& targets) {
    const SparseLayout& l = s.layout;
    const SparseTiles tiles = tiles_of(l, band.rows, SPARSE_CELLS);
    const int64_t count = tiles.strips() * l.parts;
    const Parts shares(count, (count + tasks - 1) / tasks);
    parallel(shares.count, [&](int64_t task) {
        float* const results = memory.results + task * memory.task_floats;
        int32_t* const vectors = memory.vectors + task * memory.task_vectors;
        for (int64_t i = shares.first(task); i < shares.first(task) + shares.size(task); ++i) {
            const int64_t part = i / tiles.strips();
            const SparseStrip strip = tiles.strip(i % tiles.strips());
            correlate_strip(s, values, bias, cells, tiles, strip, part, memory.tile_floats, results);
            tiles.find_vectors(strip, l.along.row_phases, memory.tile_floats, vectors);
            write_strip(l, targets, strip, band.first + strip.down, part * l.part, l.part_rows(part), results,
                        tiles.step, vectors);
        }
    });
}

static int64_t tasks_of() { return threads() == 1 ? 1 : 2 * threads(); }

// Whether vectors of a source are read where they lie: a whole map has no halo.
static bool reads_vectors(const SparseLayout& l, int64_t lanes) { return l.whole && lanes == W; }

// A correlation's arrays, and the images of a vector of each: 1 or W.
struct SparseEnds {
    const float* source;
    int64_t source_lanes;
    const float* bias;
    float* target;
    int64_t target_lanes;
};

static efl_status sparse_correlate(const SparseStructure& s, const float* values, const SparseEnds& ends) {
    const SparseLayout& l = s.layout;
    const int64_t batch = l.conv.batch, source_plane = l.down.source * l.along.source;
    const int64_t plane = l.transposed ? l.conv.height * l.conv.width : l.down.positions * l.along.positions;
    if (batch == 0 || l.rows == 0 || plane == 0) return EFL_OK;
    const SparseTiles tiles = tiles_of(l, l.band, SPARSE_CELLS);
    const SparseSource source{ends.source, batch, l.channels, source_plane, ends.source_lanes};
    const bool in_place = reads_vectors(l, source.lanes);
    SparseMemory memory;
    if (!place([&](Carve& carve) { memory = SparseMemory::of(carve, l, tiles, tasks_of()); })) return EFL_NO_MEMORY;
    zero_floats(memory.zeros, source_plane);
    float* const cells = memory.cells;
    if (!in_place) clear_cells(l, cells);
    for (int64_t image = 0; image < batch; image += W) {
        const SparseImages images(source, image, memory.zeros);
        const SparseTargets targets(ends.target, ends.target_lanes, batch, image, l.rows / l.row_phases() * plane);
        for (int64_t first = 0; first < l.down.positions; first += l.band) {
            if (!in_place) fill_cells(l, images, memory.positions, first, cells);
            correlate_band(s, values, ends.bias, band_of(l, first), memory, in_place ? images.vectors : cells,
                           tasks_of(), targets);
        }
    }
    return EFL_OK;
}

static efl_status sparse_conv2d_forward_f32(const efl_conv2d* conv, const efl_uint32* structure, efl_int64,
                                            const float* values, efl_int64 count, const float* x, const float* bias,
                                            float* y, efl_int64 x_lanes, efl_int64 y_lanes) {
    const SparseLayout layout(*conv, count, false);
    return sparse_correlate({layout, structure}, values, {x, x_lanes, bias, y, y_lanes});
}

static efl_status sparse_conv2d_grad_input_f32(const efl_conv2d* conv, const efl_uint32* structure, efl_int64,
                                               const float* values, efl_int64 count, const float* dy, float* dx,
                                               efl_int64 x_lanes, efl_int64 y_lanes) {
    const SparseLayout layout(*conv, count, true);
    return sparse_correlate({layout, structure}, values, {dy, y_lanes, nullptr, dx, x_lanes});
}

static efl_int64 sparse_conv2d_lanes() { return W; }

// dy's cells of a band: [channel][row][col] of vectors, without halo.
static void fill_sent(const SparseLayout& l, const SparseImages& images, const SparseBand& band, float* sent) {
    const int64_t cells = band.rows * l.along.positions;
    split(l.rows, cells * W, [=](int64_t from, int64_t to) {
        for (int64_t o = from; o < to; ++o)
            images.channel(o).each(band.first * l.along.positions, cells, l.down.positions * l.along.positions,
                                   [=](int64_t i, vf vector) { store(sent + (o * cells + i) * W, vector); });
    });
}

static SumLists lists_summer(const SparseLayout& l, int64_t rows, int64_t cols) {
    if (!l.whole) return sums_of_lists<SPARSE_ROWS, SPARSE_COLS>(rows, cols);
    return cols == 2 ? sum_maps<2> : sum_maps<4>;
}

// The packing memory of a weight's gradients. `waiting` is of the first task; the others' follow.
struct SparseGradientMemory {
    SparsePositions positions;
    float *zeros, *cells, *sent, *waiting;
    int64_t task_floats;

    static SparseGradientMemory of(Carve& carve, const SparseLayout& l, int64_t tasks) {
        SparseGradientMemory m;
        const int64_t source = l.down.source * l.along.source, sent = l.down.positions * l.along.positions;
        m.task_floats = (SPARSE_SUMS + 4) * W;
        m.positions = {.rows = carve.take<int64_t>(l.down.source), .cols = carve.take<int64_t>(l.along.source)};
        m.zeros = carve.take<float>(source > sent ? source : sent);
        m.cells = carve.take<float>(l.channels * l.plane * W);
        m.sent = carve.take<float>(l.rows * l.band * l.along.positions * W);
        m.waiting = carve.take<float>(m.task_floats * tasks);
        return m;
    }
};

// What the gradients of a band read: x's cells, and dy's, whose channels are `step` floats apart.
struct SparseSeen {
    const float *cells, *sent;
    int64_t step;
};

// The gradients of one cell of the structure from a band.
static void sum_cell(const SparseStructure& s, int64_t part, int64_t block, const SparseBand& band,
                     const SparseSeen& seen, float* waiting, float* gradients) {
    const SparseLayout& l = s.layout;
    const int64_t pitch = l.along.positions * W;
    const SparseTiles tiles = tiles_of(l, band.rows, SPARSE_SENT);
    for (int64_t r = 0; r < tiles.rows.count; ++r)
        for (int64_t c = 0; c < tiles.cols.count; ++c) {
            const int64_t down = tiles.rows.first(r), along = tiles.cols.first(c);
            SparseLists lists = lists_at(s, part, block, nullptr);
            lists.cells = seen.cells + (block * l.block * l.plane + down * l.pitch + along) * W;
            lists.results = const_cast<float*>(seen.sent) + part * l.part * seen.step + down * pitch + along * W;
            lists.step = seen.step;
            SparseSums sums_of{.gradients = gradients + s.cell(part, block).slot, .vectors = waiting};
            lists_summer(l, tiles.rows.size(r), tiles.cols.size(c))(lists, pitch, sums_of);
            sums_of.end();
        }
}

// The vectors that a band reads: where they lie already, or filled in.
static SparseSeen seen_of(const SparseLayout& l, const SparseImages& x, const SparseImages& dy, const SparseBand& band,
                          const SparseGradientMemory& memory, bool in_place) {
    const int64_t cols = l.along.positions;
    if (!in_place) fill_cells(l, x, memory.positions, band.first, memory.cells);
    const float* const cells = in_place ? x.vectors : memory.cells;
    if (dy.vectors) return {cells, dy.vectors + band.first * cols * W, l.down.positions * cols * W};
    fill_sent(l, dy, band, memory.sent);
    return {cells, memory.sent, band.rows * cols * W};
}

static efl_status sparse_conv2d_grad_weight_f32(const efl_conv2d* conv, const efl_uint32* structure, efl_int64,
                                                const float* x, const float* dy, float* gradients, efl_int64 count,
                                                efl_int64 x_lanes, efl_int64 y_lanes) {
    const SparseLayout l(*conv, count, false);
    const SparseStructure s{l, structure};
    const int64_t batch = conv->batch, cells = l.parts * l.blocks;
    const int64_t x_plane = l.down.source * l.along.source, y_plane = l.down.positions * l.along.positions;
    SparseGradientMemory memory;
    if (!place([&](Carve& carve) { memory = SparseGradientMemory::of(carve, l, tasks_of()); })) return EFL_NO_MEMORY;
    zero_floats(gradients, count);
    if (cells == 0) return EFL_OK;
    zero_floats(memory.zeros, x_plane > y_plane ? x_plane : y_plane);
    const bool in_place = reads_vectors(l, x_lanes);
    if (!in_place) clear_cells(l, memory.cells);
    const Parts shares(cells, (cells + tasks_of() - 1) / tasks_of());
    for (int64_t image = 0; image < batch; image += W) {
        const SparseImages seen_by({x, batch, l.channels, x_plane, x_lanes}, image, memory.zeros);
        const SparseImages sent_by({dy, batch, l.rows, y_plane, y_lanes}, image, memory.zeros);
        for (int64_t first = 0; first < l.down.positions; first += l.band) {
            const SparseBand band = band_of(l, first);
            const SparseSeen seen = seen_of(l, seen_by, sent_by, band, memory, in_place);
            parallel(shares.count, [&](int64_t task) {
                for (int64_t i = shares.first(task); i < shares.first(task) + shares.size(task); ++i)
                    sum_cell(s, i / l.blocks, i % l.blocks, band, seen, memory.waiting + task * memory.task_floats,
                             gradients);
            });
        }
    }
    return EFL_OK;
}
