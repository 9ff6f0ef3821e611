// The matrix-product microkernel: tiles of a few rows and a few vectors, held in registers over all the terms of a sum.
// The linear gradients and the forward pass of a larger batch are made of it. Its operands lie at even distances, where
// those of outer_product are found by tables. The function is in tile_body.inl.h.
//
//     c[m][n] = (add ? c[m][n] : 0) + start[n] + sum over t of a[m][t] * b[t][n]

constexpr int TILE_ROWS = REGISTERS < 32 ? 6 : READS_IN_FMA ? 9 : 8;

constexpr int vectors_of_tile(int rows) {
    return REGISTERS < 32 ? vectors_per_tile(rows) : rows > 6 ? 3 : rows > 2 ? 4 : 8;
}

struct Tiles {
    const float* a;
    int64_t a_pitch;
    bool by_rows;  // a[m][t] lies at m * a_pitch + t; otherwise at t * a_pitch + m
    const float* b;
    int64_t b_pitch, b_step;  // from a term to the next, and from a tile to the next: in c they are neighbours
    bool b_far;  // b's rows lie apart, where no processor fetches them by itself; then tiles are as wide as they can be
    float* keep;        // of such a b, where the vectors of each tile are put down as they are read; or nullptr
    int64_t keep_step;  // from a tile to the next there
    int64_t terms;
    const float* start;  // nullptr: zeros. Like b it is read by whole vectors.
    float* c;
    int64_t c_pitch;
    bool add;
    const uint16_t* chosen;  // which lanes of each vector of the tiles are written; nullptr: all
};

// `count` tiles of 1 to TILE_ROWS rows and 1 to vectors_of_tile(rows) vectors; of the last one's last vector, `lanes`
// count.
void multiply(const Tiles& p, int64_t rows, int64_t vectors, int64_t count, int64_t lanes);
