// A matrix turned: to[c][r] = from[r][c], by squares of a vector's length.

static void transpose(const float* from, int64_t from_pitch, int64_t rows, int64_t columns, float* to,
                      int64_t to_pitch) {
    for (int64_t r = 0; r < rows; r += W)
        for (int64_t c = 0; c < columns; c += W) {
            const int64_t down = least(W, rows - r), across = least(W, columns - c);
            vf square[W];
            for (int64_t m = 0; m < W; ++m)
                square[m] = m >= down     ? zero()
                            : across == W ? load(from + (r + m) * from_pitch + c)
                                          : load_n(from + (r + m) * from_pitch + c, int(across));
            turn(square);
            for (int64_t m = 0; m < across; ++m) {
                float* const at = to + (c + m) * to_pitch + r;
                if (down == W) store(at, square[m]);
                else store_n(at, square[m], int(down));
            }
        }
}
