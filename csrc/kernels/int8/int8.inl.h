// Convolutions whose inputs are rounded to int8 codes, of int8 weights. Sums of products are exact in 32 bits, so
// results have the same bits on every instruction set.

constexpr int64_t IMAGES_CODES = 1 << 18;  // codes of images that are multiplied together
constexpr int64_t RUN = 48;                // positions whose results are turned together, at least

// What one call reads and writes.
struct Int8Call {
    const Int8Layer& l;
    const float *scale, *bias;  // of the outputs of all vectors
    bool has_bias;              // a bias of 0 would turn -0
    float* y;
    const Code *weights, *inputs;
    const int64_t *off, *positions;
    const int32_t* starts;
    const float* values;  // of code 1, of each image in packed memory
};

// Results of a tile, [position][output]. Outputs beyond the last have room and scales of 0.
template <int VECTORS>
static void finish_tile(const Int8Call& call, int64_t vector, const int32_t* sums, int64_t positions,
                        const float* values, float* to) {
    constexpr int PITCH = VECTORS * OUTS;
    const int32_t* const starts = call.starts + vector * OUTS;
    const float *const scale = call.scale + vector * OUTS, *const bias = call.bias + vector * OUTS;
    for (int64_t p = 0; p < positions; ++p, sums += PITCH, to += PITCH) {
        const float value = values[p];
        float row[PITCH];
        for (int o = 0; o < PITCH; ++o) row[o] = float(sums[o] + starts[o]) * (value * scale[o]);
        if (call.has_bias)
            for (int o = 0; o < PITCH; ++o) row[o] += bias[o];
        __builtin_memcpy(to, row, sizeof row);
    }
}

// Results of the positions [first, first + count), which run over all images, and of some vectors of outputs: into
// `found` [position][VECTORS * OUTS].
template <int VECTORS>
static void multiply_run(const Int8Call& call, int64_t vector, int64_t first, int64_t count, float* found) {
    constexpr int64_t TILE = POSITIONS<VECTORS>, PITCH = VECTORS * OUTS;
    const Int8Layer& l = call.l;
    const int64_t each = l.positions(), last = first + count - 1;
    alignas(64) int32_t sums[TILE * PITCH];
    int64_t image = first / each, inside = first % each;
    for (int64_t p = first; p <= last; p += TILE) {
        const Code* at[TILE];
        float values[TILE];
        for (int64_t k = 0; k < TILE; ++k) {  // a position beyond the last is the last once more
            at[k] = call.inputs + image * l.image_codes() + call.positions[inside];
            values[k] = call.values[image];
            if (p + k < last && ++inside == each) ++image, inside = 0;
        }
        sum_tile<VECTORS>(call.weights + vector * l.vector_codes(), l.vector_codes(), at, call.off, l.groups, sums);
        finish_tile<VECTORS>(call, vector, sums, least(TILE, last - p + 1), values, found + (p - first) * PITCH);
    }
}

// Turns results [position][output] into y, [image][output][position].
static void put_results(const Int8Call& call, int64_t image, int64_t vector, int64_t vectors, int64_t first,
                        int64_t count, const float* found) {
    const Int8Layer& l = call.l;
    const int64_t each = l.positions(), outs = l.c.out_channels, out = vector * OUTS, pitch = vectors * OUTS;
    const int64_t width = least(pitch, outs - out);
    while (count > 0) {
        const int64_t from = first % each, n = least(count, each - from);
        float* const to = call.y + ((image + first / each) * outs + out) * each + from;
        if (each == 1) copy_floats(to, found, width);
        for (int64_t o = 0; o < width && each > 1; o += W)
            transpose(found + o, pitch, n, least(W, width - o), to + o * each, each);
        found += n * pitch, first += n, count -= n;
    }
}

// Calls multiply_run with as many vectors as a template argument.
template <int VECTORS = MOST_VECTORS>
static void multiply_vectors(int64_t vectors, const Int8Call& call, int64_t vector, int64_t first, int64_t count,
                             float* found) {
    if constexpr (VECTORS > 1)
        if (vectors < VECTORS) return multiply_vectors<VECTORS - 1>(vectors, call, vector, first, count, found);
    multiply_run<VECTORS>(call, vector, first, count, found);
}

// Some images, whose codes are in packed memory.
static void multiply_images(const Int8Call& call, int64_t image, int64_t images, float* room, int64_t room_size) {
    const Int8Layer& l = call.l;
    const int64_t all = images * l.positions(), macs = l.macs() / l.c.batch * images;
    const Parts panels(l.vectors, MOST_VECTORS);
    const int64_t runs = up_to(all, RUN), count = panels.count * runs;
    each_block(count, macs, count, [&](int64_t i, int64_t thread) {
        const int64_t panel = i / runs, first = i % runs * RUN, size = least(RUN, all - first);
        const int64_t vector = panels.first(panel), vectors = panels.size(panel);
        float* const found = room + thread * room_size;
        multiply_vectors(vectors, call, vector, first, size, found);
        put_results(call, image, vector, vectors, first, size, found);
    });
}

static efl_status conv2d_int8_f32(const efl_conv2d* conv, const float* x, const efl_uint8* codes, const float* scale,
                                  const float* bias, float* y) {
    const Int8Layer l(*conv);
    const efl_conv2d& c = *conv;
    if (c.batch == 0 || c.out_channels == 0 || l.positions() == 0) return EFL_OK;
    const int64_t enough = up_to(RUN, l.positions()), many = IMAGES_CODES / (l.image_codes() + 1);
    const int64_t at_once = least(c.batch, enough > many ? enough : many), crew = threads();
    const int64_t staged_size = l.groups * CODES * OUTS, room_size = RUN * MOST_VECTORS * OUTS;
    Code *weights, *inputs, *staged;
    int64_t *off, *positions;
    int32_t* starts;
    float *values, *room, *scales, *biases;
    if (!place([&](Carve& carve) {
            weights = carve.take<Code>(l.vectors * l.vector_codes());
            inputs = carve.take<Code>(at_once * l.image_codes());
            staged = carve.take<Code>(crew * staged_size);
            off = carve.take<int64_t>(l.groups);
            positions = carve.take<int64_t>(l.positions());
            starts = carve.take<int32_t>(l.vectors * OUTS);
            values = carve.take<float>(at_once);
            scales = carve.take<float>(l.vectors * OUTS);
            biases = carve.take<float>(l.vectors * OUTS);
            room = carve.take<float>(crew * room_size);
        }))
        return EFL_NO_MEMORY;
    l.fill_offsets(off), l.fill_positions(positions);
    for (int64_t o = 0; o < l.vectors * OUTS; ++o) {
        scales[o] = o < c.out_channels ? scale[o] : 0;
        biases[o] = bias && o < c.out_channels ? bias[o] : 0;
    }
    const int64_t terms = l.taps() * c.in_channels;
    each_block(l.vectors, c.out_channels * terms * 8, l.vectors, [&](int64_t v, int64_t thread) {
        pack_vector(l, reinterpret_cast<const int8_t*>(codes), v, staged + thread * staged_size,
                    weights + v * l.vector_codes(), starts + v * OUTS);
    });
    const Int8Call call{l, scales, biases, bias != nullptr, y, weights, inputs, off, positions, starts, values};
    for (int64_t first = 0; first < c.batch; first += at_once) {
        const int64_t images = least(at_once, c.batch - first), size = c.in_channels * l.cells();
        each_block(images, images * size * 8,
                   [&](int64_t i) { values[i] = fill_image(l, x + (first + i) * size, inputs + i * l.image_codes()); });
        multiply_images(call, first, images, room, room_size);
    }
    return EFL_OK;
}
