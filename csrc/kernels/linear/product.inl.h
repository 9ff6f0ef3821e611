// The product of two matrices that a larger forward pass and both gradients of a Linear layer are. Its first panel
// reads the right side where it lies and keeps a copy by tiles, a block that stays in a second cache at a time; each
// other panel sweeps over the tiles of the block. What the first panel cannot read so is packed before. Where rows are
// few, blocks are a few tiles that stay in a first cache, or every panel reads the right side where it lies.

// The buffers that threads' results go through, `size` floats each.
struct Results {
    float* first;
    int64_t size;

    float* of(int64_t thread) const { return first + thread * size; }
};

// The factors of panel i for pass k.
static const float* factors_of(const Job& job, int64_t i, int64_t k) {
    const Cut& cut = job.cut;
    if (!cut.a_in_place) return job.factors + cut.factors_at(i, k);
    return job.p.a + cut.panels.first(i) * job.p.m_step + cut.passes.first(k) * job.p.t_step;
}

// Pass k of panel i over the tiles [first, last); the results go to c.
static void multiply_pass(const Job& job, int64_t i, int64_t k, int64_t first, int64_t last, float* c,
                          int64_t c_pitch) {
    const ColumnProduct& p = job.p;
    const Cut& cut = job.cut;
    const bool is_first = i == job.first_panel, reads = cut.b_in_place && (is_first || !cut.keeps);
    const int64_t rows = cut.panels.size(i), t0 = cut.passes.first(k), n0 = first * cut.width;
    const int64_t whole = last - first - job.has_rest(last);
    Tiles t{
        .a = factors_of(job, i, k),
        .a_pitch = cut.by_rows      ? cut.a_pitch
                   : cut.a_in_place ? p.t_step
                                    : rows,
        .by_rows = cut.by_rows,
        .b = reads ? p.b_row(t0) + n0 : job.tile(first) + t0 * cut.width,
        .b_pitch = reads ? p.b_pitch : cut.width,
        .b_step = reads ? cut.width : cut.tile_at(1, p.terms),
        .b_far = reads && (is_first || FETCHED_BY_ALL) && vectors_of_tile(int(rows)) == cut.vectors,
        .keep = reads && cut.keeps ? job.tile(first) + t0 * cut.width : nullptr,
        .keep_step = cut.tile_at(1, p.terms),
        .terms = p.terms > 0 ? cut.passes.size(k) : 0,
        .start = k == 0 && p.bias ? job.start + n0 : nullptr,
        .c = c,
        .c_pitch = c_pitch,
        .add = k > 0,
        .chosen = cut.masked ? job.columns.bits + n0 / W : nullptr,
    };
    if (whole) multiply(t, rows, cut.vectors, whole, W);
    if (whole == last - first) return;
    const int64_t rest = cut.columns - n0 - whole * cut.width, vectors = (rest + W - 1) / W;
    if (t.start) t.start += whole * cut.width;
    t.b = job.tile(last - 1) + t0 * cut.width, t.b_pitch = cut.width;
    t.b_far = false, t.keep = nullptr;
    t.c += whole * cut.width, t.chosen += t.chosen ? whole * cut.vectors : 0;
    multiply(t, rows, vectors, 1, rest - (vectors - 1) * W);
}

// Results of rows [m0, m0 + rows) that went through a buffer, [rows][pitch], from column n0 on.
static void finish(const Job& job, int64_t m0, int64_t rows, int64_t n0, int64_t columns, const float* results,
                   int64_t pitch) {
    if (job.p.step) return job.p.step->apply(Step::Part{m0, rows, n0, columns, results, pitch});
    if (job.cut.picked)
        return job.columns.pick(results, rows, pitch, n0, columns, job.p.c + m0 * job.p.c_pitch, job.p.c_pitch);
    for (int64_t m = 0; m < rows; ++m)
        job.columns.write(results + m * pitch, n0, n0 + columns, job.p.c + (m0 + m) * job.p.c_pitch);
}

// Panels [i0, i1) over the tiles [first, last), all passes.
static void sweep(const Job& job, float* results, int64_t i0, int64_t i1, int64_t first, int64_t last) {
    const ColumnProduct& p = job.p;
    const Cut& cut = job.cut;
    const int64_t m0 = cut.panels.first(i0), rows = cut.panels.first(i1 - 1) + cut.panels.size(i1 - 1) - m0;
    const int64_t n0 = first * cut.width, pitch = cut.apart ? (last - first) * cut.width : p.c_pitch;
    float* c = cut.apart ? results : p.c + m0 * p.c_pitch + n0;
    for (int64_t k = 0; k < cut.passes.count; ++k)
        for (int64_t i = i0; i < i1; ++i)
            multiply_pass(job, i, k, first, last, c + (cut.panels.first(i) - m0) * pitch, pitch);
    if (cut.apart) finish(job, m0, rows, n0, least(cut.columns, last * cut.width) - n0, results, pitch);
}

// A few panels from the first one on over the tiles [first, last), of which the first panel, or each, reads whole ones
// where they lie.
static void sweep_first(const Job& job, float* results, int64_t panels, int64_t first, int64_t last) {
    if (job.has_rest(last)) pack_columns(job, last - 1, last, 0, job.p.terms);
    sweep(job, results, job.first_panel, job.first_panel + panels, first, last);
}

// Where rows are few: tasks are runs of tiles, in which a thread's packed tiles are those of a turn.
static void multiply_in_turns(const Job& job, const Results& results) {
    const Cut& cut = job.cut;
    const int64_t packed_size = cut.tile_at(cut.packed_tiles(), job.p.terms);
    parallel(cut.runs.count, cut.runs.count, [&](int64_t task, int64_t thread) {
        const int64_t end = cut.runs.first(task) + cut.runs.size(task);
        for (int64_t n = cut.runs.first(task), last; n < end; n = last) {
            last = least(end, n + cut.turn);
            Job turn = job;
            turn.packed += thread * packed_size, turn.first = cut.keeps ? n : last - 1;
            sweep_first(turn, results.of(thread), cut.panels.count, n, last);
        }
    });
}

// The tiles [job.first, last) with the panels [job.first_panel, end): the first panel reads and keeps them, or they are
// packed before.
static void multiply_block(const Job& job, int64_t last, int64_t end, float* results) {
    int64_t i = job.first_panel;
    if (job.cut.b_in_place) sweep_first(job, results, 1, job.first, last), ++i;
    else if (job.p.b_transposed)
        pack_transposed(job, job.first * job.cut.vectors, (least(job.cut.columns, last * job.cut.width) + W - 1) / W);
    else pack_columns(job, job.first, last, 0, job.p.terms);
    for (; i < end; ++i) sweep(job, results, i, i + 1, job.first, last);
}

// Every thread has blocks of its own: what another thread packs would have to come out of that one's second cache.
static void multiply_blocks(const Job& job, const Results& results) {
    const Cut& cut = job.cut;
    const int64_t packed_size = cut.tile_at(cut.packed_tiles(), job.p.terms);
    parallel(cut.runs.count, cut.runs.count, [&](int64_t task, int64_t thread) {
        const int64_t begin = cut.runs.first(task), end = begin + cut.runs.size(task);
        const Parts blocks = cut.blocks_of_run(task);
        Job own = job;
        own.packed += thread * packed_size;
        if (cut.by_panels) own.first_panel = begin;
        for (int64_t k = 0; k < blocks.count; ++k) {
            own.first = blocks.first(k) + (cut.by_panels ? 0 : begin);
            multiply_block(own, own.first + blocks.size(k), cut.by_panels ? end : cut.panels.count, results.of(thread));
        }
    });
}

// The same product of the chosen rows of `whole` alone, which lie by columns and are put side by side in `a`.
static ColumnProduct of_chosen_rows(ColumnProduct whole) {
    whole.count = whole.m_ids.count, whole.t_step = (whole.count + LINE - 1) / LINE * LINE, whole.m_ids = everything;
    return whole;
}

static void put_chosen_rows(const ColumnProduct& whole, const Chosen& rows, float* to, int64_t pitch) {
    rows.fill();
    split(whole.terms, whole.m_ids.count, [=](int64_t t0, int64_t t1) {
        const Chosen::Range all = rows.range(0, whole.m_ids.count);
        rows.read_all(whole.a + t0 * whole.t_step, t1 - t0, whole.t_step, all, to + t0 * pitch, pitch);
    });
}

static efl_status column_product(const ColumnProduct& whole) {
    if (whole.count == 0 || count_of(whole.columns, whole.b_columns) == 0) return EFL_OK;
    ColumnProduct p = whole.m_ids.ids ? of_chosen_rows(whole) : whole;
    const Cut cut(p);
    const int64_t owners = threads_for(cut.runs.count), packed = cut.tile_at(cut.packed_tiles(), p.terms);
    Chosen columns(p.columns, p.b_columns), rows(whole.m_ids, whole.t_step);
    Job job{p, cut, columns, nullptr, nullptr, nullptr, 0};
    Results results{nullptr, cut.results()};
    float *start, *a;
    if (!place([&](Carve& carve) {
            a = carve.take<float>(whole.m_ids.ids ? p.terms * p.t_step : 0);
            job.factors = carve.take<float>(cut.a_in_place ? 0 : cut.factors_at(cut.panels.count, 0));
            start = carve.take<float>(p.bias ? cut.tiles * cut.width : 0);
            job.packed = carve.take<float>(owners * packed);
            results.first = carve.take<float>(owners * results.size);
            columns.place_in(carve), rows.place_in(carve);
        }))
        return EFL_NO_MEMORY;
    if (p.columns.ids) columns.fill();
    if (whole.m_ids.ids) put_chosen_rows(whole, rows, a, p.t_step), p.a = a;
    if (p.bias) copy_bias(p, cut, start);
    job.start = start;
    if (!cut.a_in_place) pack_all_factors(job);
    if (cut.in_turns()) multiply_in_turns(job, results);
    else multiply_blocks(job, results);
    return EFL_OK;
}
