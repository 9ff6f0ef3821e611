// Weight gradient of a convolution, lanes over input channels: for many channels, whatever the size of their map.
//
// x is laid out channels-last in panels, so that a row of taps is one run of lanes; the sum runs over positions of a
// few images at a time, through the outer-product microkernel. No lane is lost to padding, stride or the end of a row.
// Panels of channels and outputs are divided among threads; where there is one of them, images are, in a few chunks, a
// number by shape alone, whose sums are added in order.

constexpr int64_t PANEL_CHANNELS = 2 * W;
constexpr int64_t PASS_POSITIONS = 256;              // terms per pass: a panel's pixels and the matching dy stay in L1
constexpr int64_t PASS_MET = W < 16 ? 256 : 128;     // the same where all pixels that lie in the panel are met
constexpr int64_t MIN_IN_PLACE = W < 16 ? 128 : 64;  // positions of an image, from which dy is read where it lies

// Panels of channels: one less where its runs of `joint` taps take fewer vectors.
static Parts channel_panels(int64_t channels, int64_t joint) {
    const Parts most(channels, PANEL_CHANNELS);
    const auto vectors = [=](const Parts& panels) {
        int64_t sum = 0;
        for (int64_t c = 0; c < panels.count; ++c) sum += (joint * panels.size(c) + W - 1) / W;
        return sum;
    };
    if (joint == 1 || most.count < 2) return most;
    const Parts fewer = Parts::into(channels, most.count - 1);
    return fewer.size(0) <= 2 * PANEL_CHANNELS && vectors(fewer) < vectors(most) ? fewer : most;
}

struct ChannelPlan {
    const WeightGradient& w;
    bool met;                                // one tap at a stride of 2: only the pixels that it meets are laid out
    bool in_place;                           // then dy is read where it lies
    int64_t outs, height, width, per_group;  // padded extents, or those of positions; images per group
    Parts channels, rows, outputs, chunks;   // outputs: panels in halves; chunks of images
    int64_t joint, segments;                 // taps in one run of lanes; runs per panel
    int64_t pitch = 0;                       // floats of one output's sums
    int64_t *off, *row;
    float *x, *dy, *sums, *start, *pixels;
    Vector* vector;

    explicit ChannelPlan(const WeightGradient& w_)
        : w(w_), met(w.taps() == 1 && w.conv.stride_w == 2 && w.conv.pad_h == 0 && w.conv.pad_w == 0),
          in_place(met && !w.outs.ids && w.positions() >= MIN_IN_PLACE), outs(count_of(w.outs, w.conv.out_channels)),
          height(met ? w.geometry.out_h : w.planes.rows.extent()),
          width(met ? w.geometry.out_w : w.planes.cols.extent()),
          per_group(w.positions() < PASS_POSITIONS ? least(w.conv.batch, PASS_POSITIONS / w.positions()) : 1),
          channels(channel_panels(w.ins_per_group(), w.conv.dil_w == 1 ? w.conv.kernel_w : 1)), rows(outs, MAX_ROWS),
          outputs(Parts::into(rows.count, rows.count > 3 ? 2 : 1)),
          chunks(Parts::into(w.conv.batch, channels.count * outputs.count > 1 ? 1 : least(4, (w.conv.batch + 7) / 8))),
          joint(w.conv.dil_w == 1 ? w.conv.kernel_w : 1), segments(w.taps() / joint) {
        for (int64_t c = 0; c < channels.count; ++c) pitch += segments * run(c);
    }

    // Lanes of one run of panel c, in whole vectors, and where the panel starts in an output's sums.
    int64_t run(int64_t c) const { return (joint * channels.size(c) + W - 1) / W * W; }
    int64_t start_of(int64_t c) const {
        const int64_t larger = channels.total % channels.count;
        return segments * (least(c, larger) * run(0) + (c > larger ? (c - larger) * run(channels.count - 1) : 0));
    }
    int64_t image_pixels() const { return height * width; }
    int64_t pixels_size() const { return met ? W * image_pixels() : 0; }
    // A kernel smaller than the stride skips rows.
    bool reads_row(int64_t r) const { return w.conv.kernel_h > 1 || r % w.conv.stride_h == 0; }
    // Where panel p of dy starts; a cache line apart, as interleave may write past the end while others are filled.
    float* dy_panel(int64_t p) const { return dy + rows.first(p) * per_group * w.positions() + p * LINE; }
    float* x_panel(int64_t c) const { return x + channels.first(c) * per_group * image_pixels(); }

    // Floats of what each chunk has for itself.
    int64_t x_size() const { return channels.total * per_group * image_pixels(); }
    int64_t dy_size() const { return in_place ? 0 : outs * per_group * w.positions() + rows.count * LINE; }
    int64_t sums_size() const { return outs * pitch; }
    // Whether the sums lie as the weights do: of one tap, in whole vectors, and of one chunk.
    bool sums_are_weights() const { return chunks.count == 1 && pitch == channels.total; }
    ChannelPlan of_chunk(int64_t k) const {
        ChannelPlan own = *this;
        own.x += k * x_size(), own.dy += k * dy_size(), own.sums += k * sums_size();
        own.pixels += k * channels.count * pixels_size();
        return own;
    }

    void lay_out(Carve& carve) {
        off = carve.take<int64_t>(2 * per_group * w.positions());
        row = carve.take<int64_t>(outs);
        vector = carve.take<Vector>(joint * channels.size(0) / W + 1);
        x = carve.take<float>(chunks.count * x_size());
        dy = carve.take<float>(chunks.count * dy_size());
        sums = sums_are_weights() ? w.dw : carve.take<float>(chunks.count * sums_size());
        start = carve.take<float>(MAX_ROWS);
        pixels = carve.take<float>(chunks.count * channels.count * pixels_size());
    }
};

// to[pixel][channel] = from[channel][pixel]. The last channels overlap those before: nothing past a row is written.
static void put_channels(const float* const* from, int64_t size, int64_t pixels, float* to) {
    for (int64_t k = 0; size >= W && k < size; k += W) {
        const int64_t first = least(k, size - W);
        interleave(from + first, W, pixels, to + first, size);
    }
    for (int64_t k = 0; size < W && k < size; ++k)
        for (int64_t q = 0; q < pixels; ++q) to[q * size + k] = from[k][q];
}

// The pixels of a plane that one tap at a stride of 2 columns meets, side by side.
static void take_met(const WeightGradient& w, const float* plane, float* to) {
    const int64_t height = w.geometry.out_h, width = w.geometry.out_w, row = w.conv.stride_h * w.conv.width;
    if (width <= W) return copy_short_alternates(to, width, plane, row, height, width);
    for (int64_t r = 0; r < height; ++r) copy_alternate(to + r * width, plane + r * row, width, false);
}

// Panel c of the group's images where only they are laid out: [image][position][channel].
static void fill_met(const ChannelPlan& plan, int64_t c, int64_t image, int64_t images) {
    const int64_t size = plan.channels.size(c), first = plan.channels.first(c), count = plan.image_pixels();
    float* pixels = plan.pixels + c * plan.pixels_size();
    for (int64_t n = 0; n < images; ++n)
        for (int64_t k = 0; k < size; k += W) {
            const float* from[W];
            const int64_t lanes = least(W, size - k);
            for (int64_t l = 0; l < lanes; ++l) {
                from[l] = pixels + l * count;
                take_met(plan.w, plan.w.x_plane(image + n, first + k + l), pixels + l * count);
            }
            float* to = plan.x_panel(c) + n * count * size + k;
            if (lanes == W) interleave(from, W, count, to, size);
            else
                for (int64_t l = 0; l < lanes; ++l)
                    for (int64_t q = 0; q < count; ++q) to[q * size + l] = from[l][q];
        }
}

// Panel c of the group's images, channels last: [image][row][column][channel]; the padding is already zero.
static void fill_channels(const ChannelPlan& plan, int64_t c, int64_t image, int64_t images) {
    if (plan.met) return fill_met(plan, c, image, images);
    const WeightGradient& w = plan.w;
    const Axis &rows = w.planes.rows, &cols = w.planes.cols;
    const int64_t size = plan.channels.size(c), first = plan.channels.first(c);
    const int64_t top = rows.origin < 0 ? -rows.origin : 0, left = cols.origin < 0 ? -cols.origin : 0;
    const int64_t bottom = least(plan.height, rows.source - rows.origin),
                  right = least(plan.width, cols.source - cols.origin);
    for (int64_t n = 0; n < images; ++n)
        for (int64_t r = top; r < bottom; ++r) {
            if (!plan.reads_row(r)) continue;
            const float* from[2 * PANEL_CHANNELS];
            for (int64_t k = 0; k < size; ++k)
                from[k] = w.x_plane(image + n, first + k) + (rows.origin + r) * cols.source + cols.origin + left;
            float* to = plan.x_panel(c) + ((n * plan.height + r) * plan.width + left) * size;
            put_channels(from, size, right - left, to);
        }
}

// Panel p of dy: [position of the group's images][output of the panel].
static void fill_outputs(const ChannelPlan& plan, int64_t p, int64_t image, int64_t images) {
    const WeightGradient& w = plan.w;
    const int64_t size = plan.rows.size(p), positions = w.positions();
    float* to = plan.dy_panel(p);
    for (int64_t n = 0; n < images; ++n, to += positions * size) {
        const float* from[MAX_ROWS];
        for (int64_t m = 0; m < size; ++m) from[m] = w.dy_plane(image + n, plan.rows.first(p) + m);
        interleave(from, size, positions, to, size);
    }
}

// Positions of a group as offsets into a panel of `size` channels.
static void tabulate_positions(const ChannelPlan& plan, int64_t size, int64_t* off) {
    const efl_conv2d& c = plan.w.conv;
    const int64_t down = plan.met ? 1 : c.stride_h, along = plan.met ? 1 : c.stride_w;
    for (int64_t n = 0; n < plan.per_group; ++n)
        for (int64_t h = 0; h < plan.w.geometry.out_h; ++h)
            for (int64_t q = 0; q < plan.w.geometry.out_w; ++q)
                *off++ = ((n * plan.height + h * down) * plan.width + q * along) * size * OFF_UNIT;
}

// Adds the group's images to the sums of panel c, outputs of the panels [first, last).
static void add_group(const ChannelPlan& plan, int64_t c, int64_t first, int64_t last, int64_t terms, bool fresh) {
    const efl_conv2d& conv = plan.w.conv;
    const int64_t size = plan.channels.size(c), all = plan.per_group * plan.w.positions();
    const int64_t* off = plan.off + (size < plan.channels.size(0) ? all : 0);
    const Parts passes(terms, plan.met ? PASS_MET : PASS_POSITIONS);
    for (int64_t k = 0; k < passes.count; ++k)
        for (int64_t p = first; p < last; ++p)
            for (int64_t s = 0; s < plan.segments; ++s) {
                const int64_t tap = s * plan.joint, kh = tap / conv.kernel_w, kw = tap % conv.kernel_w;
                const Product product{
                    .a = plan.dy_panel(p) + passes.first(k) * plan.rows.size(p),
                    .b = plan.x_panel(c) + (kh * conv.dil_h * plan.width + kw * conv.dil_w) * size,
                    .off = off + passes.first(k),
                    .terms = passes.size(k),
                    .start = fresh && k == 0 ? plan.start : nullptr,
                    .c = plan.sums + plan.start_of(c) + s * plan.run(c),
                    .row = plan.row + plan.rows.first(p),
                    .vectors = plan.vector,
                };
                outer_product(product, plan.rows.size(p), plan.run(c) / W);
            }
}

// The same from dy where it lies, image by image.
static void add_in_place(const ChannelPlan& plan, int64_t c, int64_t first, int64_t last, int64_t image, int64_t images,
                         bool fresh) {
    const int64_t size = plan.channels.size(c), positions = plan.w.positions(), from = plan.rows.first(first);
    const Parts panels(plan.rows.first(last) - from, TILE_ROWS);
    for (int64_t n = 0; n < images; ++n)
        for (int64_t p = 0; p < panels.count; ++p) {
            const int64_t o = from + panels.first(p);
            const Tiles t{
                .a = plan.w.dy_plane(image + n, o),
                .a_pitch = positions,
                .by_rows = true,
                .b = plan.x_panel(c) + n * positions * size,
                .b_pitch = size,
                .b_step = 0,
                .b_far = false,
                .keep = nullptr,
                .keep_step = 0,
                .terms = positions,
                .start = nullptr,
                .c = plan.sums + plan.start_of(c) + o * plan.pitch,
                .c_pitch = plan.pitch,
                .add = !fresh || n > 0,
                .chosen = nullptr,
            };
            multiply(t, panels.size(p), plan.run(c) / W, 1, W);
        }
}

// Four taps' sums of a panel's channels, which lie by taps, turned.
static void turn_taps(const float* sums, const int64_t (&off)[W], int64_t channels, int64_t taps, float* to) {
    const float* from[W];
    for (int l = 0; l < W; ++l) from[l] = sums + off[l];
    if (channels < W) return interleave(from, W, channels, to, taps);
    for (int64_t next = 0; next < channels; next += W) {
        const int64_t first = least(next, channels - W);  // the last channels overlap those before
        vf columns[W];
        load_columns(from, first, columns);
        float* at = to + first * taps;
        EFL_UNROLL
        for (int k = 0; k < W; ++k, at += taps) store(at, columns[k]);
    }
}

// The sums of one chunk: W taps of all panels at a time, then one.
static void write_turned(const ChannelPlan& plan) {
    const int64_t taps = plan.w.taps(), ins = plan.channels.total, larger = plan.channels.larger;
    for (int64_t tap = 0, count; tap < taps; tap += count) {
        count = tap + W <= taps ? W : 1;
        int64_t off[2][W] = {};  // in the sums of a panel, of smaller panels and of larger ones
        for (int64_t i = 0; i < 2 * count; ++i) {
            const int64_t t = tap + i % count, c = i < count ? plan.channels.count - 1 : 0;
            off[i / count][i % count] = t / plan.joint * plan.run(c) + t % plan.joint * plan.channels.size(c);
        }
        for (int64_t o = 0; o < plan.outs; ++o) {
            const float* sums = plan.sums + o * plan.pitch;
            float* to = plan.w.dw + o * ins * taps + tap;
            for (int64_t c = 0; c < plan.channels.count; ++c) {
                const int64_t size = plan.channels.size(c);
                if (count == W) turn_taps(sums, off[c < larger], size, taps, to);
                else if (taps == 1) copy_floats(to, sums, size);
                else
                    for (int64_t k = 0; k < size; ++k) to[k * taps] = sums[off[c < larger][0] + k];
                sums += plan.segments * plan.run(c), to += size * taps;
            }
        }
    }
}

static void write_weights(const ChannelPlan& plan) {
    if (plan.sums_are_weights()) return;
    if (W == 4 && plan.chunks.count == 1) return write_turned(plan);
    const int64_t taps = plan.w.taps(), ins = plan.channels.total;
    for (int64_t o = 0; o < plan.outs; ++o)
        for (int64_t c = 0; c < plan.channels.count; ++c) {
            const int64_t size = plan.channels.size(c);
            const float* from = plan.sums + o * plan.pitch + plan.start_of(c);
            float* to = plan.w.dw + (o * ins + plan.channels.first(c)) * taps;
            for (int64_t t = 0; t < taps; ++t)
                for (int64_t k = 0; k < size; ++k) {
                    const float* sum = from + t / plan.joint * plan.run(c) + t % plan.joint * size + k;
                    to[k * taps + t] = *sum;
                    for (int64_t i = 1; i < plan.chunks.count; ++i) to[k * taps + t] += sum[i * plan.sums_size()];
                }
        }
}

// The sums of a chunk's images.
static void add_images(const ChannelPlan& plan, int64_t first, int64_t count) {
    const int64_t panels = plan.channels.count;
    for (int64_t image = first; image < first + count; image += plan.per_group) {
        const int64_t images = least(plan.per_group, first + count - image), terms = images * plan.w.positions();
        const int64_t macs = terms * plan.outs * plan.channels.total * plan.w.taps();
        each_block(panels + (plan.in_place ? 0 : plan.rows.count), macs, [&](int64_t i) {
            if (i < panels) fill_channels(plan, i, image, images);
            else fill_outputs(plan, i - panels, image, images);
        });
        each_block(panels * plan.outputs.count, macs, [&](int64_t i) {
            const int64_t c = i / plan.outputs.count, part = i % plan.outputs.count;
            const int64_t begin = plan.outputs.first(part), end = begin + plan.outputs.size(part);
            if (plan.in_place) return add_in_place(plan, c, begin, end, image, images, image == first);
            add_group(plan, c, begin, end, terms, image == first);
        });
    }
}

static efl_status weight_by_channels(const WeightGradient& w) {
    ChannelPlan plan(w);
    if (!place([&](Carve& carve) { plan.lay_out(carve); })) return EFL_NO_MEMORY;
    tabulate_positions(plan, plan.channels.size(0), plan.off);
    tabulate_positions(plan, plan.channels.size(plan.channels.count - 1), plan.off + plan.per_group * w.positions());
    for (int64_t o = 0; o < plan.outs; ++o) plan.row[o] = o * plan.pitch;
    for (int64_t v = 0; v < plan.run(0) / W; ++v) plan.vector[v] = Vector{v * W, v * W, W};
    zero_floats(plan.start, MAX_ROWS);
    zero_floats(plan.x, plan.chunks.count * plan.x_size());
    each_block(plan.chunks.count, w.conv.batch * w.positions() * plan.outs * plan.channels.total * w.taps(),
               [&](int64_t k) { add_images(plan.of_chunk(k), plan.chunks.first(k), plan.chunks.size(k)); });
    write_weights(plan);
    return EFL_OK;
}
