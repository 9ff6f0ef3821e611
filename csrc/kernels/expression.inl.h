// Expressions of up to five inputs, value by value, as a program whose steps are run over blocks that stay in the L1
// cache; and rows that are copied or reduced, with which inputs of fewer values are expanded.

constexpr int expression_block = 128, expression_inputs = 5, expression_values = 64;

enum Step {
    CONSTANT,
    SUM,
    DIFFERENCE,
    PRODUCT,
    QUOTIENT,
    LARGER,
    SMALLER,
    POWER,
    LESS,
    LESS_EQUAL,
    EQUAL,
    CHOICE,
    EXP,
    LOG,
    SQRT,
    SIN,
    COS,
    MAGNITUDE
};

// e^v of any v. Beyond 88.73 it overflows to infinity by the last factor, which is 2 there.
static inline vf exp_of(vf v) {
    const ExpParts e = exp_parts(at_most(v, 88.73f));
    const vf n = at_most(e.n, 127.0f), above = add(sub(e.n, n), set1(1.0f));
    return if_up_to(v, set1(LEAST_EXPONENT), zero(), mul(scaled(add(e.p, set1(1.0f)), n), above));
}

// log x = k ln 2 + log m with m in [sqrt(1/2), sqrt 2], log m = 2 atanh s, s = (m - 1) / (m + 1). At most 2 ulp.
static inline float log_of(float x) {
    const bool is_small = x < 1.17549435e-38f;
    const float grown = is_small ? x * 8388608.0f : x;
    int32_t bits;
    __builtin_memcpy(&bits, &grown, 4);
    const int32_t k = (bits - 0x3f3504f3) >> 23, of_m = bits - k * (1 << 23);
    float m;
    __builtin_memcpy(&m, &of_m, 4);
    const float s = (m - 1) / (m + 1), q = s * s, exponent = float(k) - (is_small ? 23.0f : 0.0f);
    const float p = ((0.2222222f * q + 0.28571429f) * q + 0.4f) * q + 0.66666667f;
    const float found = exponent * 0.693359375f + (s * (q * p) + (exponent * -2.12194440e-4f + 2 * s));
    const float far = x == 0 ? -__builtin_inff() : x > 0 ? x : __builtin_nanf("");
    return x > 0 && x < __builtin_inff() ? found : far;
}

struct Operands {
    const float *a, *b, *c;
};

template <class F>
static inline void each_vector(const Operands& of, float* y, const F& f) {
    for (int i = 0; i < expression_block; i += W) store(y + i, f(load(of.a + i), load(of.b + i), load(of.c + i)));
}

template <class F>
static inline void each_value(const float* x, float* y, const F& f) {
    for (int i = 0; i < expression_block; ++i) y[i] = f(x[i]);
}

static inline vf is_not_number(vf a, vf b, vf other) {  // NaN where a or b is, else `other`
    return if_up_to(a, a, if_up_to(b, b, other, b), a);
}

static void run_step(int32_t step, const Operands& of, float* y) {
    const vf one = set1(1.0f), none = zero();
    switch (Step(step)) {
        case SUM: return each_vector(of, y, [](vf a, vf b, vf) { return add(a, b); });
        case DIFFERENCE: return each_vector(of, y, [](vf a, vf b, vf) { return sub(a, b); });
        case PRODUCT: return each_vector(of, y, [](vf a, vf b, vf) { return mul(a, b); });
        case QUOTIENT: return each_vector(of, y, [](vf a, vf b, vf) { return div(a, b); });
        case LARGER: return each_vector(of, y, [](vf a, vf b, vf) { return is_not_number(a, b, max(a, b)); });
        case SMALLER: return each_vector(of, y, [](vf a, vf b, vf) { return is_not_number(a, b, min(a, b)); });
        case LESS: return each_vector(of, y, [=](vf a, vf b, vf) { return keep_positive(one, sub(b, a)); });
        case LESS_EQUAL: return each_vector(of, y, [=](vf a, vf b, vf) { return if_up_to(a, b, one, none); });
        case EQUAL: return each_vector(of, y, [=](vf a, vf b, vf) { return keep_equal(one, a, b); });
        case CHOICE: return each_vector(of, y, [=](vf a, vf b, vf c) { return if_up_to(absolute(a), none, c, b); });
        case EXP: return each_vector(of, y, [](vf a, vf, vf) { return exp_of(a); });
        case SQRT: return each_vector(of, y, [](vf a, vf, vf) { return sqrt(a); });
        case MAGNITUDE: return each_vector(of, y, [](vf a, vf, vf) { return absolute(a); });
        case LOG: return each_value(of.a, y, [](float x) { return log_of(x); });
        case SIN: return each_value(of.a, y, [](float x) { return __builtin_sinf(x); });
        case COS: return each_value(of.a, y, [](float x) { return __builtin_cosf(x); });
        case POWER:
            for (int i = 0; i < expression_block; ++i) y[i] = __builtin_powf(of.a[i], of.b[i]);
            return;
        case CONSTANT: return;
    }
}

// The values of one block: inputs where they lie, or copies of the last ones, and the results of steps.
struct ExpressionBlock {
    alignas(64) float memory[expression_values][expression_block];
    const float* value[expression_values];
};

static void begin_block(ExpressionBlock& block, const int32_t* program, int64_t steps, const double* constants) {
    for (int64_t k = 0; k < steps; ++k) {
        float* const y = block.memory[expression_inputs + k];
        block.value[expression_inputs + k] = y;
        if (program[4 * k] != CONSTANT) continue;
        for (int i = 0; i < expression_block; ++i) y[i] = float(constants[program[4 * k + 1]]);
    }
}

static void run_block(ExpressionBlock& block, const float* const* inputs, int64_t at, int n, const int32_t* program,
                      int64_t steps, float* y) {
    for (int k = 0; k < expression_inputs; ++k) {
        block.value[k] = inputs[k] ? inputs[k] + at : block.memory[0];
        if (!inputs[k] || n == expression_block) continue;
        for (int i = 0; i < expression_block; ++i) block.memory[k][i] = i < n ? inputs[k][at + i] : 1.0f;
        block.value[k] = block.memory[k];
    }
    for (int64_t k = 0; k < steps; ++k) {
        const int32_t* const step = program + 4 * k;
        if (step[0] == CONSTANT) continue;
        const auto value = [&](int i) { return block.value[unsigned(step[i]) < expression_values ? step[i] : 0]; };
        const bool is_last = k + 1 == steps && n == expression_block;
        run_step(step[0], {value(1), value(2), value(3)}, is_last ? y + at : block.memory[expression_inputs + k]);
    }
    const float* const last = block.memory[expression_inputs + steps - 1];
    if (n < expression_block || program[4 * steps - 4] == CONSTANT) __builtin_memcpy(y + at, last, sizeof(float) * n);
}

static efl_status evaluate_f32(const float* a, const float* b, const float* c, const float* d, const float* e,
                               efl_int64 inner, const efl_int32* program, efl_int64 steps, const double* constants,
                               efl_int64 count, float* y) {
    (void)count;
    const float* const inputs[expression_inputs] = {a, b, c, d, e};
    const int64_t blocks = (inner + expression_block - 1) / expression_block;
    split(blocks, expression_block * steps, [=](int64_t first, int64_t last) {
        ExpressionBlock block;
        for (int i = 0; i < expression_block; ++i) block.memory[0][i] = 1.0f;  // read where a step has fewer operands
        begin_block(block, program, steps, constants);
        for (int64_t i = first; i < last; ++i) {
            const int64_t at = i * expression_block;
            run_block(block, inputs, at, int(least(expression_block, inner - at)), program, steps, y);
        }
    });
    return EFL_OK;
}

static efl_status expand_f32(const float* x, efl_int64 rows, efl_int64 copies, efl_int64 length, float* y) {
    if (length == 1) {
        split(rows, copies, [=](int64_t first, int64_t last) {
            for (int64_t r = first; r < last; ++r) {
                const float value = x[r];
                for (int64_t k = 0; k < copies; ++k) y[r * copies + k] = value;
            }
        });
        return EFL_OK;
    }
    split(rows * copies, length, [=](int64_t first, int64_t last) {
        for (int64_t i = first; i < last; ++i) {
            const float* const row = x + i / copies * length;
            for (int64_t k = 0; k < length; ++k) y[i * length + k] = row[k];
        }
    });
    return EFL_OK;
}

// Of a row of single values, W partial sums in float64 would cost more than they are worth: sums go by value in
// float64.
static inline double row_sum(const float* x, int64_t n) {
    double total = 0, ignored = 0;
    plane_sums(x, x, n, &total, &ignored);
    return total;
}

template <class Better>
static inline void reduce_rows(const float* x, int64_t values, int64_t length, float* y, const Better& better) {
    for (int64_t k = 0; k < length; ++k) y[k] = x[k];
    for (int64_t c = 1; c < values; ++c)
        for (int64_t k = 0; k < length; ++k) y[k] = better(x[c * length + k], y[k]) ? x[c * length + k] : y[k];
}

static void sum_rows(const float* x, int64_t values, int64_t length, float scale, float* y) {
    if (length == 1) {
        *y = float(row_sum(x, values) * double(scale));
        return;
    }
    constexpr int64_t strip = 8 * W;  // of sums that stay in registers
    int64_t k = 0;
    for (; k + strip <= length; k += strip) {
        vf sums[8];
        for (int i = 0; i < 8; ++i) sums[i] = load(x + k + i * W);
        for (int64_t c = 1; c < values; ++c)
            for (int i = 0; i < 8; ++i) sums[i] = add(sums[i], load(x + c * length + k + i * W));
        for (int i = 0; i < 8; ++i) store(y + k + i * W, mul(sums[i], set1(scale)));
    }
    for (; k < length; ++k) {
        float sum = x[k];
        for (int64_t c = 1; c < values; ++c) sum += x[c * length + k];
        y[k] = sum * scale;
    }
}

static efl_status reduce_f32(const float* x, efl_int64 rows, efl_int64 values, efl_int64 length, efl_int32 kind,
                             float scale, float* y) {
    split(rows, values * length, [=](int64_t first, int64_t last) {
        for (int64_t i = first; i < last; ++i) {
            const float* const from = x + i * values * length;
            float* const to = y + i * length;
            if (kind == 0) sum_rows(from, values, length, scale, to);
            else if (kind == 1)
                reduce_rows(from, values, length, to, [](float v, float best) { return v > best || v != v; });
            else reduce_rows(from, values, length, to, [](float v, float best) { return v < best || v != v; });
        }
    });
    return EFL_OK;
}
