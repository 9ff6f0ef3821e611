// RNN, GRU and LSTM over all steps of sequences. Examples are independent: a few of them go through all the steps at
// once, their states in a first cache and the weight in a second one, so threads meet at the end only.

static efl_status to_steps_f32(const float* x, efl_int64 batch, efl_int64 channels, efl_int64 steps, float* y) {
    split(batch, channels * steps, [=](int64_t first, int64_t last) {
        for (int64_t b = first; b < last; ++b)
            transpose(x + b * channels * steps, steps, channels, steps, y + b * channels, batch * channels);
    });
    return EFL_OK;
}

static efl_status from_steps_f32(const float* y, efl_int64 passed, efl_int64 batch, efl_int64 channels, efl_int64 steps,
                                 float* x) {
    y += passed * batch * channels;
    split(batch, channels * steps, [=](int64_t first, int64_t last) {
        for (int64_t b = first; b < last; ++b)
            transpose(y + b * channels, batch * channels, steps, channels, x + b * channels * steps, steps);
    });
    return EFL_OK;
}

// What every example's way through the steps shares. The weight of a product with a state lies turned, a row a unit of
// the state before; the weight of a product with gradients lies as it is; rows of both are whole vectors.
struct Recurrence {
    const efl_recurrence& shape;
    int64_t gates, room;  // room: a gate's floats in whole vectors
    float *weight, *start, *scratch;
    int64_t scratch_size;

    Recurrence(const efl_recurrence& s, int64_t gates_) : shape(s), gates(gates_), room(whole_vectors(s.units)) {}

    int64_t pitch() const { return gates * shape.units; }  // of an example's gates
    Parts panels() const { return Parts(shape.batch, TILE_ROWS); }
    int64_t macs() const { return shape.steps * shape.batch * pitch() * shape.units; }
    int64_t tasks() const { return blocks_of(panels().count, macs()); }
    // Of step t, example b.
    int64_t state(int64_t t, int64_t b) const { return (t * shape.batch + b) * shape.units; }

    // Room for the packed weight, and `floats` for each of a panel's examples.
    bool place_forward(int64_t floats) { return place_all(shape.units * gates * room, floats); }
    bool place_backward(int64_t floats) { return place_all(pitch() * room, floats); }

    void pack_forward(const float* w, const float* bias) {
        zero_floats(weight, shape.units * gates * room);
        zero_floats(start, gates * room);
        for (int64_t g = 0; g < gates; ++g) {
            transpose(w + g * shape.units * shape.units, shape.units, shape.units, shape.units, weight + g * room,
                      gates * room);
            if (bias) copy_floats(start + g * room, bias + g * shape.units, shape.units);
        }
    }

    void pack_backward(const float* w) {
        zero_floats(weight, pitch() * room);
        for (int64_t i = 0; i < pitch(); ++i) copy_floats(weight + i * room, w + i * shape.units, shape.units);
    }

    // sums [rows][gates][room] = weight states + start.
    void of_states(const float* states, int64_t rows, float* sums) const {
        small_product(tiles(states, shape.units, gates * room, start, shape.units, sums, false), rows, gates * room);
    }

    // carry [rows][room] += the gradient of the states before that the gates' gradients give.
    void of_gradients(const float* gradients, int64_t rows, float* carry) const {
        small_product(tiles(gradients, pitch(), room, nullptr, pitch(), carry, true), rows, room);
    }

    // task(first example, examples, their scratch), for all panels.
    template <class Task>
    void each_panel(const Task& task) const {
        const Parts all = panels(), blocks = Parts::into(all.count, tasks());
        parallel(blocks.count, blocks.count, [&](int64_t block, int64_t thread) {
            for (int64_t i = blocks.first(block); i < blocks.first(block) + blocks.size(block); ++i)
                task(all.first(i), all.size(i), scratch + thread * scratch_size);
        });
    }

private:
    bool place_all(int64_t weights, int64_t floats) {
        scratch_size = floats * TILE_ROWS;
        return place([&](Carve& carve) {
            weight = carve.take<float>(weights);
            start = carve.take<float>(gates * room);
            scratch = carve.take<float>(scratch_size * threads_for(tasks()));
        });
    }

    Tiles tiles(const float* a, int64_t terms, int64_t pitch, const float* from, int64_t a_pitch, float* c,
                bool add) const {
        return Tiles{
            .a = a,
            .a_pitch = a_pitch,
            .by_rows = true,
            .b = weight,
            .b_pitch = pitch,
            .b_step = 0,
            .b_far = false,
            .keep = nullptr,
            .keep_step = 0,
            .terms = terms,
            .start = from,
            .c = c,
            .c_pitch = pitch,
            .add = add,
            .chosen = nullptr,
        };
    }
};

// body(k, n) for each vector [k, k + n) of the units.
template <class Body>
__attribute__((always_inline)) static inline void each_vector(int64_t units, const Body& body) {
    int64_t k = 0;
    for (; k + W <= units; k += W) body(k, W);
    if (k < units) body(k, int(units - k));
}

static inline vf less_square(vf y) { return sub(set1(1.0f), mul(y, y)); }  // the slope of tanh
static inline vf slope_of_sigmoid(vf y) { return mul(y, sub(set1(1.0f), y)); }

// Which units pass a gradient on: vectors that are above 0 there; all units where nothing is listed.
struct Passing {
    const float* marks;

    Passing(efl_index units, int64_t room, float* to) : marks(units.ids ? to : nullptr) {
        if (!marks) return;
        zero_floats(to, room);
        for (int64_t i = 0; i < units.count; ++i) to[units.ids[i]] = 1.0f;
    }
    inline vf of(vf v, int64_t k) const { return marks ? keep_positive(v, load(marks + k)) : v; }
};

// ---- RNN

static efl_status rnn_forward_f32(const efl_recurrence* shape, const float* weight, const float* bias, efl_int32 relu,
                                  float* gates, float* states) {
    const int64_t units = shape->units;
    Recurrence r(*shape, 1);
    if (!r.place_forward(r.room)) return EFL_NO_MEMORY;
    r.pack_forward(weight, bias);
    zero_floats(states, shape->batch * units);
    r.each_panel([&](int64_t first, int64_t rows, float* sums) {
        for (int64_t t = 0; t < shape->steps; ++t) {
            r.of_states(states + r.state(t, first), rows, sums);
            for (int64_t m = 0; m < rows; ++m) {
                float *const gate = gates + r.state(t, first + m), *const after = states + r.state(t + 1, first + m);
                const float* const sum = sums + m * r.room;
                each_vector(units, [&](int64_t k, int n) {
                    const vf v = add(part(gate + k, n), load(sum + k));
                    const vf state = relu ? if_above(v, zero(), v, zero()) : tanh(v);
                    put(gate + k, state, n), put(after + k, state, n);
                });
            }
        }
    });
    return EFL_OK;
}

static efl_status rnn_backward_f32(const efl_recurrence* shape, const float* dy, const float* weight, efl_int32 relu,
                                   efl_index listed, float* gates) {
    const int64_t units = shape->units;
    Recurrence r(*shape, 1);
    if (!r.place_backward(r.room)) return EFL_NO_MEMORY;
    r.pack_backward(weight);
    const Passing passing(listed, r.room, r.start);
    r.each_panel([&](int64_t first, int64_t rows, float* carry) {
        zero_floats(carry, rows * r.room);
        for (int64_t t = shape->steps - 1; t >= 0; --t) {
            for (int64_t m = 0; m < rows; ++m) {
                const int64_t at = r.state(t, first + m);
                float* const carried = carry + m * r.room;
                each_vector(units, [&](int64_t k, int n) {
                    const vf grad = add(part(dy + at + k, n), load(carried + k)), state = part(gates + at + k, n);
                    const vf through = relu ? keep_positive(grad, state) : mul(grad, less_square(state));
                    put(gates + at + k, passing.of(through, k), n);
                    store(carried + k, zero());
                });
            }
            if (t > 0) r.of_gradients(gates + r.state(t, first), rows, carry);
        }
    });
    return EFL_OK;
}

// ---- GRU

// Gates of one example that are sigmoids.
static inline void sigmoid_gates(int64_t units, int64_t room, int64_t count, const float* sums, float* gates) {
    for (int64_t g = 0; g < count; ++g, sums += room, gates += units)
        each_vector(units,
                    [&](int64_t k, int n) { put(gates + k, sigmoid(add(part(gates + k, n), load(sums + k))), n); });
}

static inline void gru_units(int64_t units, int64_t room, const float* sums, const float* before, float* gates,
                             float* hidden, float* after) {
    sigmoid_gates(units, room, 2, sums, gates);
    each_vector(units, [&](int64_t k, int n) {
        float *const r_at = gates + k, *const z_at = r_at + units, *const n_at = z_at + units;
        const vf a = load(sums + 2 * room + k), fresh = tanh(fma(part(r_at, n), a, part(n_at, n)));
        put(n_at, fresh, n);
        if (hidden) put(hidden + k, a, n);
        put(after + k, fma(part(z_at, n), sub(part(before + k, n), fresh), fresh), n);
    });
}

static efl_status gru_forward_f32(const efl_recurrence* shape, const float* weight, const float* bias, float* gates,
                                  float* hidden, float* states) {
    const int64_t units = shape->units;
    Recurrence r(*shape, 3);
    if (!r.place_forward(3 * r.room)) return EFL_NO_MEMORY;
    r.pack_forward(weight, bias);
    zero_floats(states, shape->batch * units);
    r.each_panel([&](int64_t first, int64_t rows, float* sums) {
        for (int64_t t = 0; t < shape->steps; ++t) {
            r.of_states(states + r.state(t, first), rows, sums);
            for (int64_t m = 0; m < rows; ++m) {
                const int64_t at = r.state(t, first + m);
                gru_units(units, r.room, sums + m * 3 * r.room, states + at, gates + 3 * at,
                          hidden ? hidden + at : nullptr, states + r.state(t + 1, first + m));
            }
        }
    });
    return EFL_OK;
}

static inline void gru_slopes(int64_t units, const Passing& passing, const float* dy, const float* before,
                              const float* hidden, float* gates, float* dhidden, float* carry) {
    each_vector(units, [&](int64_t k, int n) {
        float *const r_at = gates + k, *const z_at = r_at + units, *const n_at = z_at + units;
        const vf r = part(r_at, n), z = part(z_at, n), fresh = part(n_at, n);
        const vf grad = add(part(dy + k, n), load(carry + k));
        const vf da = passing.of(mul(mul(grad, sub(set1(1.0f), z)), less_square(fresh)), k);
        const vf dz = passing.of(mul(mul(grad, sub(part(before + k, n), fresh)), slope_of_sigmoid(z)), k);
        const vf dr = mul(mul(da, part(hidden + k, n)), slope_of_sigmoid(r));
        put(r_at, dr, n), put(z_at, dz, n), put(n_at, da, n);
        put(dhidden + k, dr, n), put(dhidden + units + k, dz, n), put(dhidden + 2 * units + k, mul(da, r), n);
        store(carry + k, mul(grad, z));
    });
}

static efl_status gru_backward_f32(const efl_recurrence* shape, const float* dy, const float* weight,
                                   const float* hidden, const float* states, efl_index listed, float* gates,
                                   float* dhidden) {
    const int64_t units = shape->units;
    Recurrence r(*shape, 3);
    if (!r.place_backward(r.room)) return EFL_NO_MEMORY;
    r.pack_backward(weight);
    const Passing passing(listed, r.room, r.start);
    r.each_panel([&](int64_t first, int64_t rows, float* carry) {
        zero_floats(carry, rows * r.room);
        for (int64_t t = shape->steps - 1; t >= 0; --t) {
            for (int64_t m = 0; m < rows; ++m) {
                const int64_t at = r.state(t, first + m);
                gru_slopes(units, passing, dy + at, states + at, hidden + at, gates + 3 * at, dhidden + 3 * at,
                           carry + m * r.room);
            }
            if (t > 0) r.of_gradients(dhidden + 3 * r.state(t, first), rows, carry);
        }
    });
    return EFL_OK;
}

// ---- LSTM

static inline void lstm_units(int64_t units, int64_t room, const float* sums, const float* before, float* gates,
                              float* cell, float* after) {
    float *const f_gate = gates + units, *const g_gate = f_gate + units, *const o_gate = g_gate + units;
    sigmoid_gates(units, room, 2, sums, gates);
    sigmoid_gates(units, room, 1, sums + 3 * room, o_gate);
    each_vector(units, [&](int64_t k, int n) {
        const vf g = tanh(add(part(g_gate + k, n), load(sums + 2 * room + k)));
        put(g_gate + k, g, n);
        put(cell + k, fma(part(f_gate + k, n), part(before + k, n), mul(part(gates + k, n), g)), n);
    });
    each_vector(units, [&](int64_t k, int n) { put(after + k, mul(part(o_gate + k, n), tanh(part(cell + k, n))), n); });
}

static efl_status lstm_forward_f32(const efl_recurrence* shape, const float* weight, const float* bias, float* gates,
                                   float* cells, float* states) {
    const int64_t units = shape->units;
    Recurrence r(*shape, 4);
    if (!r.place_forward(4 * r.room)) return EFL_NO_MEMORY;
    r.pack_forward(weight, bias);
    zero_floats(states, shape->batch * units);
    zero_floats(cells, shape->batch * units);
    r.each_panel([&](int64_t first, int64_t rows, float* sums) {
        for (int64_t t = 0; t < shape->steps; ++t) {
            r.of_states(states + r.state(t, first), rows, sums);
            for (int64_t m = 0; m < rows; ++m) {
                const int64_t at = r.state(t, first + m), next = r.state(t + 1, first + m);
                lstm_units(units, r.room, sums + m * 4 * r.room, cells + at, gates + 4 * at, cells + next,
                           states + next);
            }
        }
    });
    return EFL_OK;
}

// carry: the gradient of the state, and of the cell.
static inline void lstm_slopes(int64_t units, const Passing& passing, const float* dy, const float* before,
                               const float* cell, float* gates, float* carry, float* cell_carry) {
    each_vector(units, [&](int64_t k, int n) {
        float *const i_at = gates + k, *const f_at = i_at + units, *const g_at = f_at + units,
                     *const o_at = g_at + units;
        const vf i = part(i_at, n), f = part(f_at, n), g = part(g_at, n), o = part(o_at, n);
        const vf grad = add(part(dy + k, n), load(carry + k)), curve = tanh(part(cell + k, n));
        const vf dcell = fma(mul(grad, o), less_square(curve), load(cell_carry + k));
        put(i_at, passing.of(mul(mul(dcell, g), slope_of_sigmoid(i)), k), n);
        put(f_at, passing.of(mul(mul(dcell, part(before + k, n)), slope_of_sigmoid(f)), k), n);
        put(g_at, passing.of(mul(mul(dcell, i), less_square(g)), k), n);
        put(o_at, passing.of(mul(mul(grad, curve), slope_of_sigmoid(o)), k), n);
        store(cell_carry + k, mul(dcell, f));
        store(carry + k, zero());
    });
}

static efl_status lstm_backward_f32(const efl_recurrence* shape, const float* dy, const float* weight,
                                    const float* cells, efl_index listed, float* gates) {
    const int64_t units = shape->units;
    Recurrence r(*shape, 4);
    if (!r.place_backward(2 * r.room)) return EFL_NO_MEMORY;
    r.pack_backward(weight);
    const Passing passing(listed, r.room, r.start);
    r.each_panel([&](int64_t first, int64_t rows, float* carry) {
        float* const cell_carry = carry + TILE_ROWS * r.room;
        zero_floats(carry, 2 * TILE_ROWS * r.room);
        for (int64_t t = shape->steps - 1; t >= 0; --t) {
            for (int64_t m = 0; m < rows; ++m) {
                const int64_t at = r.state(t, first + m);
                lstm_slopes(units, passing, dy + at, cells + at, cells + r.state(t + 1, first + m), gates + 4 * at,
                            carry + m * r.room, cell_carry + m * r.room);
            }
            if (t > 0) r.of_gradients(gates + 4 * r.state(t, first), rows, carry);
        }
    });
    return EFL_OK;
}
