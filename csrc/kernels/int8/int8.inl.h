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
    const int64_t* off;
    const Regions& regions;
    const float* values;  // of code 1, of each image in packed memory
};

// Positions [first, first + count) of a region, which run over all images, and some vectors of outputs.
struct Int8Job {
    const Region& region;
    int64_t vector, vectors, first, count;
};

// Results of a tile, [position][output]. Outputs beyond the last have room and scales of 0.
template <int VECTORS>
static void finish_tile(const Int8Call& call, const Int8Job& job, const int32_t* sums, int64_t positions,
                        const float* values, float* to) {
    constexpr int PITCH = VECTORS * OUTS;
    const int64_t out = job.vector * OUTS;
    const int32_t* const starts = job.region.starts + out;
    const float *const scale = call.scale + out, *const bias = call.bias + out;
    for (int64_t p = 0; p < positions; ++p, sums += PITCH, to += PITCH) {
        const float value = values[p];
        float row[PITCH];
        for (int o = 0; o < PITCH; ++o) row[o] = float(sums[o] + starts[o]) * (value * scale[o]);
        if (call.has_bias)
            for (int o = 0; o < PITCH; ++o) row[o] += bias[o];
        __builtin_memcpy(to, row, sizeof row);
    }
}

// Results of a job: into `found` [position][VECTORS * OUTS].
template <int VECTORS>
static void multiply_run(const Int8Call& call, const Int8Job& job, float* found) {
    constexpr int64_t TILE = POSITIONS<VECTORS>, PITCH = VECTORS * OUTS;
    const Int8Layer& l = call.l;
    const Region& region = job.region;
    const int64_t last = job.first + job.count - 1;
    alignas(64) int32_t sums[TILE * PITCH];
    int64_t image = job.first / region.count, inside = job.first % region.count;
    for (int64_t p = job.first; p <= last; p += TILE) {
        const Code* at[TILE];
        float values[TILE];
        for (int64_t k = 0; k < TILE; ++k) {  // a position beyond the last is the last once more
            at[k] = call.inputs + image * l.image_codes() + region.positions[inside];
            values[k] = call.values[image];
            if (p + k < last && ++inside == region.count) ++image, inside = 0;
        }
        const Code* const weights = call.weights + job.vector * l.vector_codes();
        sum_tile<VECTORS>(weights, l.vector_codes(), at, call.off, region.groups, sums);
        finish_tile<VECTORS>(call, job, sums, least(TILE, last - p + 1), values, found + (p - job.first) * PITCH);
    }
}

// Turns results [position][output] into y, [image][output][position], where the map is one region.
static void put_results(const Int8Call& call, const Int8Job& job, int64_t image, const float* found) {
    const Int8Layer& l = call.l;
    const int64_t each = l.positions(), outs = l.c.out_channels, out = job.vector * OUTS, pitch = job.vectors * OUTS;
    const int64_t width = least(pitch, outs - out), end = job.first + job.count;
    for (int64_t first = job.first, n; first < end; first += n, found += n * pitch) {
        const int64_t from = first % each;
        n = least(end - first, each - from);
        float* const to = call.y + ((image + first / each) * outs + out) * each + from;
        if (each == 1) copy_floats(to, found, width);
        for (int64_t o = 0; o < width && each > 1; o += W)
            transpose(found + o, pitch, n, least(W, width - o), to + o * each, each);
    }
}

// The same where there are several regions, whose positions lie apart in y.
static void scatter_results(const Int8Call& call, const Int8Job& job, int64_t image, const float* found) {
    const Int8Layer& l = call.l;
    const int64_t each = l.positions(), outs = l.c.out_channels, out = job.vector * OUTS, pitch = job.vectors * OUTS;
    const int64_t width = least(pitch, outs - out), own = job.region.count;
    for (int64_t p = job.first; p < job.first + job.count; ++p, found += pitch) {
        float* const to = call.y + ((image + p / own) * outs + out) * each + job.region.places[p % own];
        for (int64_t o = 0; o < width; ++o) to[o * each] = found[o];
    }
}

// Calls multiply_run with as many vectors as a template argument.
template <int VECTORS = MOST_VECTORS>
static void multiply_job(const Int8Call& call, const Int8Job& job, float* found) {
    if constexpr (VECTORS > 1)
        if (job.vectors < VECTORS) return multiply_job<VECTORS - 1>(call, job, found);
    multiply_run<VECTORS>(call, job, found);
}

// Some images, whose codes are in packed memory.
static void multiply_images(const Int8Call& call, int64_t image, int64_t images, float* room, int64_t room_size) {
    const Int8Layer& l = call.l;
    const Parts panels(l.vectors, MOST_VECTORS);
    int64_t runs = 0;
    for (int64_t r = 0; r < call.regions.count; ++r) runs += up_to(images * call.regions.of[r].count, RUN);
    const int64_t macs = l.macs() / l.c.batch * images, count = panels.count * runs;
    each_block(count, macs, count, [&](int64_t i, int64_t thread) {
        const int64_t panel = i / runs;
        int64_t run = i % runs;
        const Region* region = call.regions.of;
        for (int64_t own; run >= (own = up_to(images * region->count, RUN)); ++region) run -= own;
        const int64_t first = run * RUN, size = least(RUN, images * region->count - first);
        const Int8Job job{*region, panels.first(panel), panels.size(panel), first, size};
        float* const found = room + thread * room_size;
        multiply_job(call, job, found);
        if (call.regions.count == 1) put_results(call, job, image, found);
        else scatter_results(call, job, image, found);
    });
}

// The packed memory of a call.
struct Int8Memory {
    Code *weights, *inputs, *staged;
    int64_t *off, *positions, *places;
    int32_t* starts;
    float *values, *scales, *biases, *room;
    int64_t staged_size, room_size;

    bool take(const Int8Layer& l, int64_t regions, int64_t images) {
        const int64_t crew = threads(), outs = l.vectors * OUTS;
        staged_size = l.groups * CODES * OUTS, room_size = RUN * MOST_VECTORS * OUTS;
        return place([&](Carve& carve) {
            weights = carve.take<Code>(l.vectors * l.vector_codes());
            inputs = carve.take<Code>(images * l.image_codes());
            staged = carve.take<Code>(crew * staged_size);
            off = carve.take<int64_t>(l.groups);
            positions = carve.take<int64_t>(l.positions());
            places = carve.take<int64_t>(l.positions());
            starts = carve.take<int32_t>(regions * outs);
            values = carve.take<float>(images);
            scales = carve.take<float>(outs);
            biases = carve.take<float>(outs);
            room = carve.take<float>(crew * room_size);
        });
    }
    void fill_outputs(const Int8Layer& l, const float* scale, const float* bias) {
        for (int64_t o = 0; o < l.vectors * OUTS; ++o) {
            scales[o] = o < l.c.out_channels ? scale[o] : 0;
            biases[o] = bias && o < l.c.out_channels ? bias[o] : 0;
        }
    }
};

static efl_status conv2d_int8_f32(const efl_conv2d* conv, const float* x, const efl_uint8* codes, const float* scale,
                                  const float* bias, float* y) {
    const Int8Layer l(*conv);
    const efl_conv2d& c = *conv;
    if (c.batch == 0 || c.out_channels == 0 || l.positions() == 0) return EFL_OK;
    const int64_t enough = up_to(RUN, l.positions()), many = IMAGES_CODES / (l.image_codes() + 1);
    const int64_t at_once = least(c.batch, enough > many ? enough : many), size = c.in_channels * l.cells();
    Regions regions(l, at_once);
    Int8Memory memory;
    if (!memory.take(l, regions.count, at_once)) return EFL_NO_MEMORY;
    l.fill_offsets(memory.off);
    regions.fill(l, memory.positions, memory.places, memory.starts);
    memory.fill_outputs(l, scale, bias);
    each_block(l.vectors, c.out_channels * l.taps() * c.in_channels * 8, l.vectors, [&](int64_t v, int64_t thread) {
        Code* const to = memory.weights + v * l.vector_codes();
        pack_vector(l, reinterpret_cast<const int8_t*>(codes), v, memory.staged + thread * memory.staged_size, to);
        start_sums(l, regions, v, to);
    });
    const Int8Call call{l,          memory.scales, memory.biases, bias != nullptr, y, memory.weights, memory.inputs,
                        memory.off, regions,       memory.values};
    for (int64_t first = 0; first < c.batch; first += at_once) {
        const int64_t images = least(at_once, c.batch - first);
        each_block(images, images * size * 8, [&](int64_t i) {
            memory.values[i] = fill_image(l, x + (first + i) * size, memory.inputs + i * l.image_codes());
        });
        multiply_images(call, first, images, memory.room, memory.room_size);
    }
    return EFL_OK;
}
