// Masked Linear layers: forward, input gradient and weight gradient over all panels, blocks and examples. Threads share
// panels, blocks or segments, each with results of its own; no sum is split.

constexpr int MOST_VECTORS = 8;             // vectors of examples that a row holds in registers
constexpr int64_t FIRST_CACHE = 32 * 1024;  // bytes

template <int N>
struct Vectors {
    static constexpr int COUNT = N;
};

// body(Vectors<N>) for the largest power of two N <= most.
template <int N = MOST_VECTORS, class Body>
static void with_vectors(int64_t most, const Body& body) {
    if constexpr (N > 1)
        if (most < N) return with_vectors<N / 2>(most, body);
    body(Vectors<N>());
}

// Vectors of examples with which a block's activations fit into a first cache.
static int64_t vectors_kept(const SparseLinear& s, int64_t batch) {
    const int64_t fit = FIRST_CACHE / (s.width * W * int64_t(sizeof(float))), all = (batch + W - 1) / W;
    return least(MOST_VECTORS, least(fit > 1 ? fit : 1, all > 1 ? all : 1));
}

// body(Vectors<N>, first example, examples) for a batch cut into chunks of at most `most` vectors.
template <class Body>
static void each_chunk(int64_t batch, int64_t most, const Body& body) {
    for (int64_t first = 0; first < batch;) {
        const int64_t left = (batch - first + W - 1) / W;
        with_vectors(least(most, left), [&](auto vectors) {
            const int64_t examples = least(decltype(vectors)::COUNT * W, batch - first);
            body(vectors, first, examples);
            first += examples;
        });
    }
}

// Transposed activations of one chunk: a row and a column of the matrix are each a feature.
struct SparsePanels {
    float *rows, *columns;

    bool place_for(const SparseLinear& s, int64_t vectors) {
        return place([&](Carve& carve) {
            rows = carve.take<float>(s.rows * vectors * W);
            columns = carve.take<float>(s.columns * vectors * W);
        });
    }
};

// result [batch, rows] = source [batch, columns] times the matrix, plus bias (may be nullptr).
static efl_status sparse_product(const SparseLinear& s, const float* values, const float* source, const float* bias,
                                 int64_t batch, float* result) {
    const int64_t most = vectors_kept(s, batch);
    SparsePanels panels;
    if (!panels.place_for(s, most)) return EFL_NO_MEMORY;
    each_chunk(batch, most, [&](auto vectors, int64_t first, int64_t examples) {
        constexpr int N = decltype(vectors)::COUNT;
        each_block(s.blocks, s.columns * N * W, [&](int64_t k) {
            const int64_t column = s.first_column(k);
            pack_panel(source + first * s.columns, s.columns, column, s.columns_of(k), examples, N,
                       panels.columns + column * N * W);
        });
        each_block(s.panels, s.slots * N * W, [&](int64_t p) {
            const int64_t row = s.first_row(p);
            float* const sums = panels.rows + row * N * W;
            for (int64_t k = 0; k < s.blocks; ++k)
                sparse_forward<N>(s, p, k, panels.columns + s.first_column(k) * N * W, values, bias, sums);
            unpack_panel(sums, N, s.rows_of(p), examples, result + first * s.rows, s.rows, row);
        });
    });
    return EFL_OK;
}

static efl_status sparse_linear_forward_f32(const efl_uint32* structure, efl_int64, const float* values, efl_int64,
                                            const float* x, const float* bias, efl_int64 batch, efl_int64, efl_int64,
                                            float* y) {
    return sparse_product(SparseLinear::read(structure), values, x, bias, batch, y);
}

template <int N>
static void pack_rows(const SparseLinear& s, const float* dy, int64_t examples, float* rows) {
    each_block(s.panels, s.rows * N * W, [&](int64_t p) {
        const int64_t row = s.first_row(p);
        pack_panel(dy, s.rows, row, s.rows_of(p), examples, N, rows + row * N * W);
    });
}

static efl_status scatter_input(const SparseLinear& s, const float* dy, const float* values, int64_t batch, float* dx) {
    const int64_t most = vectors_kept(s, batch);
    SparsePanels panels;
    if (!panels.place_for(s, most)) return EFL_NO_MEMORY;
    each_chunk(batch, most, [&](auto vectors, int64_t first, int64_t examples) {
        constexpr int N = decltype(vectors)::COUNT;
        pack_rows<N>(s, dy + first * s.rows, examples, panels.rows);
        each_block(s.blocks, s.slots * N * W, [&](int64_t k) {
            const int64_t column = s.first_column(k);
            float* const tile = panels.columns + column * N * W;
            zero_floats(tile, s.columns_of(k) * N * W);
            for (int64_t p = 0; p < s.panels; ++p)
                sparse_scatter<N>(s, p, k, panels.rows + s.first_row(p) * N * W, values, tile);
            unpack_panel(tile, N, s.columns_of(k), examples, dx + first * s.columns, s.columns, column);
        });
    });
    return EFL_OK;
}

static efl_status sparse_linear_grad_input_f32(const efl_uint32* structure, efl_int64, const float* values, efl_int64,
                                               const float* dy, efl_int64 batch, efl_int64, efl_int64, float* dx) {
    const SparseLinear s = SparseLinear::read(structure);
    if (SparseLinear::is_transposed(structure)) return sparse_product(s, values, dy, nullptr, batch, dx);
    return scatter_input(s, dy, values, batch, dx);
}

// Twice as many vectors as the products keep: each sum across lanes then serves twice as many examples.
static efl_status sparse_linear_grad_weight_f32(const efl_uint32* structure, efl_int64, const float* x, const float* dy,
                                                efl_int64 batch, efl_int64, efl_int64, float* gradients, efl_int64) {
    const SparseLinear s = SparseLinear::read(structure);
    const int64_t most = least(MOST_VECTORS, 2 * vectors_kept(s, batch));
    SparsePanels panels;
    if (!panels.place_for(s, most)) return EFL_NO_MEMORY;
    if (batch == 0) zero_floats(gradients, s.slots);
    each_chunk(batch, most, [&](auto vectors, int64_t first, int64_t examples) {
        constexpr int N = decltype(vectors)::COUNT;
        pack_rows<N>(s, dy + first * s.rows, examples, panels.rows);
        each_block(s.blocks, s.slots * N * W, [&](int64_t k) {
            const int64_t column = s.first_column(k);
            float* const tile = panels.columns + column * N * W;
            pack_panel(x + first * s.columns, s.columns, column, s.columns_of(k), examples, N, tile);
            for (int64_t p = 0; p < s.panels; ++p)
                sparse_dots<N>(s, p, k, tile, panels.rows + s.first_row(p) * N * W, first > 0, gradients);
        });
    });
    return EFL_OK;
}
