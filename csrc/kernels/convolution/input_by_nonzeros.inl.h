// Input gradient of a convolution at a stride of 1 whose dy is mostly zeros: the terms of a sum are the outputs whose
// dy is not zero at a position. Each position adds its sums to the inputs in its window, which lie channels-last.
//
// Whether the way is taken depends on the shape and on the number of zeros, and so not on the number of threads.

struct NonzeroPlan {
    const efl_conv2d& c;
    const float *dy, *weight;
    efl_index outs, ins;
    float* dx;
    Planes planes;
    int64_t sources, targets, positions, out_w;
    Parts panels;   // of targets
    int64_t pitch;  // floats of a position's values of dy
    int64_t *off, *end;
    int32_t* list;
    float *packed, *turned, *results;

    NonzeroPlan(const efl_conv2d& c_, const Geometry& g, const float* dy_, const float* weight_, efl_index outs_,
                efl_index ins_, float* dx_)
        : c(c_), dy(dy_), weight(weight_), outs(outs_), ins(ins_), dx(dx_), planes(forward_planes(c, g)),
          sources(count_of(outs, c.out_channels)), targets(count_of(ins, c.in_channels)), positions(g.out_h * g.out_w),
          out_w(g.out_w), panels(targets, NONZERO_PANEL), pitch((sources + W - 1) / W * W) {}

    int64_t width() const { return planes.cols.extent(); }
    int64_t run(int64_t p) const { return (c.kernel_w * panels.size(p) + W - 1) / W * W; }
    int64_t packed_size(int64_t p) const { return sources * c.kernel_h * run(p); }
    float* packed_panel(int64_t p) const {
        return packed + least(p, panels.larger) * packed_size(0) +
               (p > panels.larger ? p - panels.larger : 0) * packed_size(panels.count - 1);
    }
    int64_t results_size() const { return planes.rows.extent() * width() * panels.size(0) + MOST_RUN * W; }

    void lay_out(Carve& carve, int64_t crew) {
        off = carve.take<int64_t>(crew * sources);
        packed = carve.take<float>(panels.count * packed_size(0));
        end = carve.take<int64_t>(crew * positions);
        list = carve.take<int32_t>(crew * positions * sources);
        turned = carve.take<float>(crew * (positions * pitch + W));
        results = carve.take<float>(crew * results_size());
    }
    NonzeroPlan of_thread(int64_t thread) const {
        NonzeroPlan own = *this;
        own.off += thread * sources, own.end += thread * positions, own.list += thread * positions * sources;
        own.turned += thread * (positions * pitch + W), own.results += thread * results_size();
        return own;
    }
};

// The weights of a panel's targets: [source][row of taps][tap][target], a row in whole vectors.
static void pack_taps(const NonzeroPlan& n, int64_t p) {
    const int64_t size = n.panels.size(p), taps = n.c.kernel_h * n.c.kernel_w;
    float* to = n.packed_panel(p);
    zero_floats(to, n.packed_size(p));
    for (int64_t s = 0; s < n.sources; ++s)
        for (int64_t r = 0; r < n.c.kernel_h; ++r, to += n.run(p)) {
            const float* from[NONZERO_PANEL];
            for (int64_t m = 0; m < size; ++m) {
                const int64_t target = id_of(n.ins, n.panels.first(p) + m);
                from[m] = n.weight + (id_of(n.outs, s) * n.c.in_channels + target) * taps + r * n.c.kernel_w;
            }
            if (size == NONZERO_PANEL) {
                interleave(from, W, n.c.kernel_w, to, size);
                interleave(from + W, W, n.c.kernel_w, to + W, size);
                continue;
            }
            for (int64_t t = 0; t < n.c.kernel_w; ++t)
                for (int64_t m = 0; m < size; ++m) to[t * size + m] = from[m][t];
        }
}

// dy of an image by positions, and the sources whose values are not zero at each.
static void list_sources(const NonzeroPlan& n, int64_t image) {
    const float* from[W];
    for (int64_t s = 0; s < n.sources; s += W) {
        const int64_t count = least(W, n.sources - s);
        for (int64_t m = 0; m < count; ++m)
            from[m] = n.dy + (image * n.c.out_channels + id_of(n.outs, s + m)) * n.positions;
        interleave(from, count, n.positions, n.turned + s, n.pitch);
    }
    int64_t found = 0;
    for (int64_t q = 0; q < n.positions; ++q)
        n.end[q] = found += list_nonzeros(n.turned + q * n.pitch, n.sources, n.list + found);
}

// A position's sums of a run of ROWS rows of N vectors, added to the inputs, whose rows lie `step` floats apart.
template <int ROWS, int N>
struct InputRun {
    static void run(const NonzeroTerms& terms, const float* weight, int64_t step, float* to) {
        vf sums[ROWS * N];
        EFL_UNROLL
        for (int j = 0; j < ROWS * N; ++j) sums[j] = zero();
        add_terms<ROWS, N>(terms, weight, N * W, sums);
        EFL_UNROLL
        for (int r = 0; r < ROWS; ++r) EFL_UNROLL
        for (int j = 0; j < N; ++j) {
            float* at = to + r * step + j * W;
            store(at, add(load(at), sums[r * N + j]));
        }
    }
};

// The inputs' gradients of a panel in one image: [row][column][target].
static void add_positions(const NonzeroPlan& n, int64_t p) {
    const int64_t size = n.panels.size(p), vectors = n.run(p) / W, step = n.c.dil_h * n.width() * size;
    zero_floats(n.results, n.results_size());
    for (int64_t s = 0; s < n.sources; ++s) n.off[s] = s * n.c.kernel_h * n.run(p) * OFF_UNIT;
    const Parts parts(n.c.kernel_h, rows_together(n.c.kernel_h, vectors));
    for (int64_t k = 0; k < parts.count; ++k) {
        const auto run = body_of<InputRun>(parts.size(k), vectors);
        const float* weight = n.packed_panel(p) + parts.first(k) * n.run(p);
        for (int64_t q = 0, first = 0; q < n.positions; first = n.end[q++]) {
            if (n.end[q] == first) continue;
            const NonzeroTerms terms{
                .place = n.list + first,
                .count = n.end[q] - first,
                .factor = n.turned + q * n.pitch,
                .off = n.off,
            };
            run(terms, weight, step,
                n.results + (q / n.out_w * n.width() + q % n.out_w) * size + parts.first(k) * step);
        }
    }
}

// The results of a panel to the planes of dx.
static void write_targets(const NonzeroPlan& n, int64_t p, int64_t image) {
    const int64_t size = n.panels.size(p);
    const auto plane = [&](int64_t m) {
        return n.dx + (image * n.c.in_channels + id_of(n.ins, n.panels.first(p) + m)) * n.c.height * n.c.width;
    };
    for (int64_t h = 0; h < n.c.height; ++h)
        for (int64_t w = 0; w < n.c.width; w += W) {
            const int64_t lanes = least(W, n.c.width - w), pixel = h * n.c.width + w;
            const float* from[W];
            for (int64_t l = 0; l < W; ++l)
                from[l] = n.results + ((h + n.c.pad_h) * n.width() + w + n.c.pad_w + (l < lanes ? l : 0)) * size;
            for (int64_t next = 0; next < size; next += 4) {
                if (size < 4) {
                    for (int64_t m = 0; m < size; ++m)
                        for (int64_t l = 0; l < lanes; ++l) plane(m)[pixel + l] = from[l][m];
                    break;
                }
                const int64_t m = least(next, size - 4);  // the last four overlap those before
                vf columns[4];
                load_columns(from, m, columns);
                for (int k = 0; k < 4; ++k) put(plane(m + k) + pixel, columns[k], int(lanes));
            }
        }
}

// Returns false where there is no memory, or dy has too few zeros. dy is not looked at before there is memory, because
// a call that counts memory may have no values.
static bool input_by_nonzeros(const NonzeroPlan& plan) {
    NonzeroPlan n(plan);
    const int64_t macs = n.sources * n.targets * n.c.kernel_h * n.c.kernel_w * n.positions * n.c.batch / MOST_NONZEROS;
    const int64_t crew = threads_for(macs < THREAD_MACS ? 1 : n.c.batch);
    if (!place([&](Carve& carve) { n.lay_out(carve, crew); })) return false;
    if (!is_mostly_zeros(n.c, n.dy, n.outs, n.positions)) return false;
    for (int64_t p = 0; p < n.panels.count; ++p) pack_taps(n, p);
    each_block(n.c.batch, macs, crew, [&](int64_t image, int64_t thread) {
        const NonzeroPlan own = n.of_thread(thread);
        list_sources(own, image);
        for (int64_t p = 0; p < n.panels.count; ++p) {
            add_positions(own, p);
            write_targets(own, p, image);
        }
    });
    return true;
}
