// Convolutions with windows of one cell and a frozen weight in fewer bits. The values are widened while they are
// packed, a pass of a job at a time, so the weight is never held in float32. correlate_points does the rest, so results
// have the bits that the widened weight gives.

// The first terms of a panel of MAX_ROWS targets, where an instruction set widens int8 codes while it turns them; how
// many those are.
static int64_t pack_codes(const PointPlan& plan, const StoredWeight& weight, int64_t panel, int64_t begin,
                          int64_t terms, float* packed) {
    int64_t done = 0;
#if defined(EFL_TURNS_CODES)
    constexpr int64_t WORD = 16;
    if (plan.panels.size(panel) != MAX_ROWS || weight.bytes != 1 || weight.col_scale) return 0;
    const uint8_t* from[MAX_ROWS];
    float scales[MAX_ROWS];
    for (int64_t m = 0; m < MAX_ROWS; ++m) {
        const int64_t row = id_of(plan.c.targets, plan.panels.first(panel) + m);
        from[m] = weight.codes + row * weight.cols + begin;
        scales[m] = weight.row_scale ? weight.row_scale[row] : 1;
    }
    const vf scale[2] = {load(scales), load(scales + W)};
    for (; done + WORD <= terms; done += WORD) {
        turn_codes(from, scale, packed + done * MAX_ROWS);
        for (int64_t m = 0; m < MAX_ROWS; ++m) from[m] += WORD;
    }
#else
    (void)plan, (void)weight, (void)panel, (void)begin, (void)terms, (void)packed;
#endif
    return done;
}

// The packed values where a row of the weight belongs to a target.
static void pack_rows(const PointPlan& plan, const StoredWeight& weight, int64_t first, int64_t count, int64_t pass,
                      float* packed) {
    const Correlation& c = plan.c;
    const int64_t begin = plan.passes.first(pass), terms = plan.passes.size(pass);
    float wide[MAX_ROWS * MAX_TERMS + W];
    for (int64_t p = first; p < first + count; ++p) {
        const int64_t rows = plan.panels.size(p), done = pack_codes(plan, weight, p, begin, terms, packed);
        const float* from[MAX_ROWS];
        for (int64_t m = 0; m < rows && done < terms; ++m) {
            from[m] = wide + m * terms;
            weight.widen(id_of(c.targets, plan.panels.first(p) + m), begin + done, terms - done, wide + m * terms);
        }
        if (done < terms) interleave(from, rows, terms - done, packed + done * rows, rows);
        packed += rows * terms;
    }
}

// The packed values where a row of the weight belongs to a source. Rows are widened from the first to the last target.
static void pack_columns(const PointPlan& plan, const StoredWeight& weight, int64_t first, int64_t count, int64_t pass,
                         float* packed, float* wide) {
    const Correlation& c = plan.c;
    const int64_t begin = plan.passes.first(pass), terms = plan.passes.size(pass), last = first + count - 1;
    const int64_t start = id_of(c.targets, plan.panels.first(first));
    const int64_t end = id_of(c.targets, plan.panels.first(last) + plan.panels.size(last) - 1) + 1;
    for (int64_t t = 0; t < terms; ++t) {
        weight.widen(id_of(c.sources, begin + t), start, end - start, wide);
        float* to = packed;
        for (int64_t p = first; p <= last; ++p) {
            const int64_t rows = plan.panels.size(p), m = plan.panels.first(p);
            if (BY_LANES && !c.targets.ids && rows == MAX_ROWS)
                copy_row_vectors<MAX_ROWS / W>(to + t * rows, 0, wide + m - start, 0, 1, rows);
            else if (c.targets.ids)
                for (int64_t k = 0; k < rows; ++k) to[t * rows + k] = wide[c.targets.ids[m + k] - start];
            else copy_few(to + t * rows, wide + m - start, rows);
            to += rows * terms;
        }
    }
}

// Targets without any source are their bias, or 0.
static void write_starts(const Correlation& c) {
    const int64_t count = count_of(c.targets, c.target_channels);
    for (int64_t i = 0; i < c.batch * count; ++i) {
        const int64_t channel = id_of(c.targets, i % count);
        float* to = c.target + (i / count * c.target_channels + channel) * c.target_plane;
        for (int64_t q = 0; q < c.positions(); ++q) to[q] = c.bias ? c.bias[channel] : 0;
    }
}

static efl_status correlate_stored(const Correlation& c, const StoredWeight& weight) {
    if (c.batch == 0 || c.positions() == 0 || count_of(c.targets, c.target_channels) == 0) return EFL_OK;
    if (count_of(c.sources, c.source_channels) == 0) return write_starts(c), EFL_OK;
    const int64_t span = c.transposed ? c.target_channels : 0;
    return correlate_points(
        c, span, [&](const PointPlan& plan, int64_t first, int64_t count, int64_t pass, float* packed, float* room) {
            if (c.transposed) pack_columns(plan, weight, first, count, pass, packed, room);
            else pack_rows(plan, weight, first, count, pass, packed);
        });
}

// A layer of one cell, over planes of one row.
static efl_conv2d pointwise_layer(int64_t batch, int64_t ins, int64_t outs, int64_t positions) {
    return efl_conv2d{
        .batch = batch,
        .in_channels = ins,
        .height = 1,
        .width = positions,
        .out_channels = outs,
        .kernel_h = 1,
        .kernel_w = 1,
        .stride_h = 1,
        .stride_w = 1,
        .pad_h = 0,
        .pad_w = 0,
        .dil_h = 1,
        .dil_w = 1,
        .groups = 1,
    };
}

static efl_status pointwise_forward_f32(const float* x, efl_int64 batch, efl_int64 in_channels, efl_int64 positions,
                                        const efl_uint8* codes, efl_int64 out_channels, efl_int64 bytes,
                                        const float* row_scale, const float* col_scale, const float* bias, float* y) {
    const efl_conv2d layer = pointwise_layer(batch, in_channels, out_channels, positions);
    if (batch == 0 || positions == 0 || out_channels == 0) return EFL_OK;
    return correlate_stored(forward_correlation(layer, Geometry(layer), x, nullptr, bias, y),
                            StoredWeight{codes, in_channels, bytes, row_scale, col_scale});
}

static efl_status pointwise_grad_input_f32(const float* dy, efl_int64 batch, efl_int64 out_channels,
                                           efl_int64 positions, const efl_uint8* codes, efl_int64 in_channels,
                                           efl_int64 bytes, const float* row_scale, const float* col_scale,
                                           efl_index outs, efl_index ins, float* dx) {
    const efl_conv2d layer = pointwise_layer(batch, in_channels, out_channels, positions);
    if (batch == 0 || positions == 0 || in_channels == 0) return EFL_OK;
    return correlate_stored(input_phase(layer, Geometry(layer), dy, nullptr, outs, ins, dx, 0, 0),
                            StoredWeight{codes, in_channels, bytes, row_scale, col_scale});
}
