// Masked convolution: forward, input gradient and weight gradient over the structures of core/sparse_convolution.h.
//
// Threads take tiles and parts of the rows, or for weights cells of the structure; no sum is split between them.

// What a correlation of W images needs of packing memory.
struct SparseMemory {
    float *zeros, *cells, *results;
};

// A band of results of W images.
struct SparseBand {
    int64_t first, rows;
};

static SparseBand band_of(const SparseLayout& l, int64_t first) {
    return {.first = first, .rows = least(l.band, l.down.positions - first)};
}

static SparseTiles tiles_of(const SparseLayout& l, int64_t rows, int64_t cells) {
    if (l.whole) return SparseTiles(rows, l.along.positions, rows, l.along.positions, rows * l.along.positions);
    return SparseTiles(rows, l.along.positions, SPARSE_ROWS, SPARSE_COLS, cells);
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
            .results = nullptr};
}

// One tile of the results of a part's rows.
static void correlate_tile(const SparseStructure& s, const float* values, const float* bias, const float* cells,
                           const SparseTile& tile, int64_t part, float* results) {
    const SparseLayout& l = s.layout;
    const int64_t first = part * l.part, count = l.part_rows(part), size = tile.cells();
    for (int64_t i = 0; i < count; ++i) {
        const vf start = bias ? set1(bias[first + i]) : zero();
        for (int64_t k = 0; k < size; ++k) store(results + (i * size + k) * W, start);
    }
    const AddLists add_to = l.whole ? (l.along.positions == 2 ? add_maps<2> : add_maps<4>)
                                    : lists_of<SPARSE_ROWS, SPARSE_COLS>(tile.rows, tile.cols);
    for (int64_t block = 0; block < l.blocks; ++block) {
        SparseLists lists = lists_at(s, part, block, values);
        lists.cells = cells + block * l.block * l.plane * W;
        lists.results = results;
        add_to(lists);
    }
}

// All tiles of a band.
static void correlate_band(const SparseStructure& s, const float* values, const float* bias, const SparseBand& band,
                           const SparseMemory& memory, int64_t room, int64_t chunks, const SparseTargets& targets) {
    const SparseLayout& l = s.layout;
    const SparseTiles tiles = tiles_of(l, band.rows, SPARSE_CELLS);
    const Parts tasks(tiles.count() * l.parts, (tiles.count() * l.parts + chunks - 1) / chunks);
    parallel(tasks.count, [&](int64_t chunk) {
        float* const results = memory.results + chunk * room;
        for (int64_t i = tasks.first(chunk); i < tasks.first(chunk) + tasks.size(chunk); ++i) {
            const int64_t part = i / tiles.count();
            SparseTile tile = tiles.at(i % tiles.count());
            const float* const cells = memory.cells + (tile.down * l.pitch + tile.along) * W;
            correlate_tile(s, values, bias, cells, tile, part, results);
            tile.down += band.first;
            write_tile(l, targets, tile, part * l.part, l.part_rows(part), results);
        }
    });
}

static efl_status sparse_correlate(const SparseStructure& s, const float* values, const float* source,
                                   const float* bias, float* target) {
    const SparseLayout& l = s.layout;
    const int64_t batch = l.conv.batch, source_plane = l.down.source * l.along.source;
    const int64_t target_plane =
        l.transposed ? l.conv.height * l.conv.width : l.down.positions * l.along.positions;
    if (batch == 0 || l.rows == 0 || target_plane == 0) return EFL_OK;
    const SparseTiles tiles = tiles_of(l, l.band, SPARSE_CELLS);
    const int64_t room = l.part * tiles.rows.size(0) * tiles.cols.size(0) * W, chunks = threads() == 1 ? 1 : 2 * threads();
    SparseMemory memory;
    if (!place([&](Carve& carve) {
            memory = {.zeros = carve.take<float>(source_plane),
                      .cells = carve.take<float>(l.channels * l.plane * W),
                      .results = carve.take<float>(room * chunks)};
        }))
        return EFL_NO_MEMORY;
    zero_floats(memory.zeros, source_plane);
    for (int64_t image = 0; image < batch; image += W) {
        const SparseImages images(source, batch, image, l.channels, source_plane, memory.zeros);
        const SparseTargets targets(target, batch, image, l.rows / l.row_phases() * target_plane);
        for (int64_t first = 0; first < l.down.positions; first += l.band) {
            fill_cells(l, images, first, memory.cells);
            correlate_band(s, values, bias, band_of(l, first), memory, room, chunks, targets);
        }
    }
    return EFL_OK;
}

static efl_status sparse_conv2d_forward_f32(const efl_conv2d* conv, const efl_uint32* structure, efl_int64,
                                            const float* values, efl_int64 count, const float* x, const float* bias,
                                            float* y) {
    const SparseLayout layout(*conv, count, false);
    return sparse_correlate({layout, structure}, values, x, bias, y);
}

static efl_status sparse_conv2d_grad_input_f32(const efl_conv2d* conv, const efl_uint32* structure, efl_int64,
                                               const float* values, efl_int64 count, const float* dy, float* dx) {
    const SparseLayout layout(*conv, count, true);
    return sparse_correlate({layout, structure}, values, dy, nullptr, dx);
}

// dy's cells of a band: [channel][row][col] of words, without halo.
static void fill_sent(const SparseLayout& l, const SparseImages& images, const SparseBand& band, float* sent) {
    const int64_t cells = band.rows * l.along.positions;
    split(l.rows, cells * W, [&](int64_t from, int64_t to) {
        for (int64_t o = from; o < to; ++o) {
            const float* rows[W];
            images.channel(o, rows);
            turn_row(rows, band.first * l.along.positions, cells, sent + o * cells * W);
        }
    });
}

// The gradients of one cell of the structure from a band.
static void sum_cell(const SparseStructure& s, int64_t part, int64_t block, const SparseBand& band,
                     const float* cells, const float* sent, float* waiting, float* gradients) {
    const SparseLayout& l = s.layout;
    const int64_t pitch = l.along.positions * W, plane = band.rows * pitch;
    const SparseTiles tiles = tiles_of(l, band.rows, SPARSE_SENT);
    for (int64_t i = 0; i < tiles.count(); ++i) {
        const SparseTile tile = tiles.at(i);
        SparseLists lists = lists_at(s, part, block, nullptr);
        lists.cells = cells + (block * l.block * l.plane + tile.down * l.pitch + tile.along) * W;
        lists.results = const_cast<float*>(sent) + part * l.part * plane + tile.down * pitch + tile.along * W;
        SparseSums sums_of{.gradients = gradients + s.cell(part, block).slot, .words = waiting};
        const SumLists sum_to = l.whole ? (l.along.positions == 2 ? sum_maps<2> : sum_maps<4>)
                                        : sums_of_lists<SPARSE_ROWS, SPARSE_COLS>(tile.rows, tile.cols);
        sum_to(lists, plane, pitch, sums_of);
        sums_of.end();
    }
}

static efl_status sparse_conv2d_grad_weight_f32(const efl_conv2d* conv, const efl_uint32* structure, efl_int64,
                                                const float* x, const float* dy, float* gradients, efl_int64 count) {
    const SparseLayout l(*conv, count, false);
    const SparseStructure s{l, structure};
    const int64_t x_plane = l.down.source * l.along.source, y_plane = l.down.positions * l.along.positions;
    const int64_t cells_of = l.parts * l.blocks, chunks = threads() == 1 ? 1 : 2 * threads();
    const int64_t room = (SPARSE_SUMS + 4) * W;
    float *zeros, *cells, *sent, *waiting;
    if (!place([&](Carve& carve) {
            zeros = carve.take<float>(x_plane > y_plane ? x_plane : y_plane);
            cells = carve.take<float>(l.channels * l.plane * W);
            sent = carve.take<float>(l.rows * l.band * l.along.positions * W);
            waiting = carve.take<float>(room * chunks);
        }))
        return EFL_NO_MEMORY;
    zero_floats(gradients, count);
    zero_floats(zeros, x_plane > y_plane ? x_plane : y_plane);
    if (cells_of == 0) return EFL_OK;
    const Parts tasks(cells_of, (cells_of + chunks - 1) / chunks);
    for (int64_t image = 0; image < conv->batch; image += W) {
        const SparseImages seen(x, conv->batch, image, l.channels, x_plane, zeros);
        const SparseImages sent_by(dy, conv->batch, image, l.rows, y_plane, zeros);
        for (int64_t first = 0; first < l.down.positions; first += l.band) {
            const SparseBand band = band_of(l, first);
            fill_cells(l, seen, first, cells);
            fill_sent(l, sent_by, band, sent);
            parallel(tasks.count, [&](int64_t chunk) {
                for (int64_t i = tasks.first(chunk); i < tasks.first(chunk) + tasks.size(chunk); ++i)
                    sum_cell(s, i / l.blocks, i % l.blocks, band, cells, sent, waiting + chunk * room, gradients);
            });
        }
    }
    return EFL_OK;
}
