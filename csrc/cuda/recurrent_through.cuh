// Recurrent layers of up to 128 units: a block takes a few examples through all steps. A thread has one row of the
// weight, of a gate of a unit; the first values of it stay in its registers, the others come through the first cache.
#pragma once
#include "recurrent_cells.cuh"

namespace recurrent {

constexpr int EXAMPLES = 2;                         // of a thread
constexpr int NEAR = 64, CHUNK = 16, FAR = 8;       // terms: in registers; behind one question; at once, of the others
constexpr int NEAR_OF_MANY = 48;                    // backward, where a thread has 128 registers; 64 spill on sm_100
constexpr int MOST_UNITS = 128, MOST_TERMS = 1024;  // _THROUGH of recurrent.py; of a block's examples

template <int THREADS>
struct ThroughMemory {
    alignas(16) float terms[MOST_TERMS];  // what rows are multiplied by, zeros between `units` and the pitch
    float sums[EXAMPLES * THREADS];       // [examples][rows]
};

// Where a thread works. Those that no row is left for do as the first one does, and write nothing.
struct Role {
    int units, rows, pitch;  // pitch: of a gate's or a state's terms, whole chunks
    int row, gate, unit;
    int local, example, examples;  // the first of its examples in the block, in the batch; how many there are
    bool is_last;                  // finishes the unit
};

template <class Cell>
EFL_DEVICE Role role_of(const Extents& extents, int groups) {
    Role role;
    role.units = int(extents.units), role.rows = Cell::GATES * role.units;
    role.pitch = (role.units + CHUNK - 1) / CHUNK * CHUNK;
    const int group = int(threadIdx.x) / role.rows;
    const bool is_idle = group >= groups;
    role.row = is_idle ? 0 : int(threadIdx.x) % role.rows;
    role.gate = role.row / role.units, role.unit = role.row % role.units;
    role.local = is_idle ? 0 : group * EXAMPLES;
    role.example = int(blockIdx.x) * groups * EXAMPLES + role.local;
    role.examples = is_idle ? 0 : smaller(EXAMPLES, int(extents.batch) - role.example);
    role.is_last = !is_idle && role.gate == Cell::LAST;
    return role;
}

// A row of the weight, whose values are `step` apart.
template <int COUNT>
struct Row {
    const float* values;
    int step;
    float near[COUNT];
};

template <int COUNT>
EFL_DEVICE void fetch(Row<COUNT>& row, int units) {
    EFL_UNROLL
    for (int k = 0; k < COUNT; ++k) row.near[k] = k < units ? row.values[k * row.step] : 0.0f;
}

template <int COUNT>
EFL_DEVICE void add_products(float (&sums)[EXAMPLES], const float* row, const float* terms, int apart) {
    EFL_UNROLL
    for (int k = 0; k < COUNT; k += 4) {
        EFL_UNROLL
        for (int e = 0; e < EXAMPLES; ++e) {
            const float4 four = *reinterpret_cast<const float4*>(terms + e * apart + k);
            sums[e] = fmaf(row[k], four.x, sums[e]);
            sums[e] = fmaf(row[k + 1], four.y, sums[e]);
            sums[e] = fmaf(row[k + 2], four.z, sums[e]);
            sums[e] = fmaf(row[k + 3], four.w, sums[e]);
        }
    }
}

// Adds to the sums the row's products with the terms of the thread's examples, `apart` from each other.
template <int COUNT>
EFL_DEVICE void add_row(float (&sums)[EXAMPLES], const Row<COUNT>& row, int units, const float* terms, int apart) {
    EFL_UNROLL
    for (int k = 0; k < COUNT; k += CHUNK)
        if (k < units) add_products<CHUNK>(sums, row.near + k, terms + k, apart);
    EFL_ROLLED
    for (int k = COUNT; k < units; k += FAR) {
        float far[FAR];
        EFL_UNROLL
        for (int i = 0; i < FAR; ++i) far[i] = k + i < units ? row.values[(k + i) * row.step] : 0.0f;
        add_products<FAR>(sums, far, terms + k, apart);
    }
}

template <int THREADS>
EFL_DEVICE void clear(ThroughMemory<THREADS>& memory) {
    for (int i = int(threadIdx.x); i < MOST_TERMS; i += THREADS) memory.terms[i] = 0;
    for (int i = int(threadIdx.x); i < EXAMPLES * THREADS; i += THREADS) memory.sums[i] = 0;
}

// What the input gives a thread's row in a step.
EFL_DEVICE void fetch_given(const ForwardArgs& a, const Role& role, int step, float (&given)[EXAMPLES]) {
    EFL_UNROLL
    for (int e = 0; e < EXAMPLES; ++e) {
        const int at = (step * int(a.extents.batch) + role.example + e) * role.rows + role.row;
        given[e] = e < role.examples ? a.gates[at] : 0.0f;
    }
}

// The gates but the last, for those who finish units.
template <class Cell>
EFL_DEVICE void open_gates(const ForwardArgs& a, const Role& role, int step, const float (&given)[EXAMPLES],
                           const float (&sums)[EXAMPLES], float* opened) {
    EFL_UNROLL
    for (int e = 0; e < EXAMPLES; ++e) {
        if (e >= role.examples) break;
        const float value = Cell::opened(role.gate, given[e], sums[e]);
        opened[(role.local + e) * role.rows + role.row] = value;
        a.gates[(step * int(a.extents.batch) + role.example + e) * role.rows + role.row] = value;
    }
}

template <class Cell>
EFL_DEVICE void finish(const ForwardArgs& a, const Role& role, int step, const float (&given)[EXAMPLES],
                       const float (&sums)[EXAMPLES], const float* opened, float (&carried)[EXAMPLES], float* states) {
    EFL_UNROLL
    for (int e = 0; e < EXAMPLES; ++e) {
        if (e >= role.examples) break;
        float gates[MOST_GATES];
        EFL_UNROLL
        for (int g = 0; g < Cell::LAST; ++g)
            gates[g] = opened[(role.local + e) * role.rows + g * role.units + role.unit];
        const Moved moved = Cell::moved(gates, given[e], sums[e], carried[e]);
        carried[e] = moved.carried;
        states[(role.local + e) * role.pitch + role.unit] = moved.state;
        put<Cell>(a, moved, step, role.example + e, role.unit);
    }
}

// The weight is turned, terms by rows, so that a warp reads neighbours. While a step is computed, what the input gives
// the next one is on its way.
template <class Cell, int THREADS>
EFL_DEVICE void through_forward(const ForwardArgs& a, ThroughMemory<THREADS>& memory) {
    const Role role = role_of<Cell>(a.extents, int(a.turn));
    Row<NEAR> row = {a.weight + role.row, role.rows, {}};
    fetch(row, role.units);
    const float bias = a.bias ? a.bias[role.row] : 0.0f;
    float next[EXAMPLES], carried[EXAMPLES] = {};
    fetch_given(a, role, 0, next);
    clear(memory);
    for (int e = 0; e < role.examples && role.is_last; ++e) begin(a, role.example + e, role.unit);
    barrier();
    EFL_ROLLED
    for (int step = 0; step < a.extents.steps; ++step) {
        float given[EXAMPLES], sums[EXAMPLES];
        EFL_UNROLL
        for (int e = 0; e < EXAMPLES; ++e) given[e] = next[e], sums[e] = bias;
        if (step + 1 < a.extents.steps) fetch_given(a, role, step + 1, next);
        add_row(sums, row, role.units, memory.terms + role.local * role.pitch, role.pitch);
        if (!role.is_last) open_gates<Cell>(a, role, step, given, sums, memory.sums);
        barrier();  // and states have been read
        if (role.is_last) finish<Cell>(a, role, step, given, sums, memory.sums, carried, memory.terms);
        barrier();  // and gates have been read
    }
}

template <class Cell>
EFL_DEVICE void fetch_saved(const BackwardArgs& a, const Role& role, int step, Saved (&saved)[EXAMPLES]) {
    EFL_UNROLL
    for (int e = 0; e < EXAMPLES; ++e)
        if (role.is_last && e < role.examples) saved[e] = saved_at<Cell>(a, step, role.example + e, role.unit);
}

template <class Cell>
EFL_DEVICE void slope(const BackwardArgs& a, const Role& role, int step, const Saved (&saved)[EXAMPLES],
                      const float* parts, float (&carried)[EXAMPLES], bool passes, float* terms) {
    EFL_UNROLL
    for (int e = 0; e < EXAMPLES; ++e) {
        if (e >= role.examples) break;
        const float* const part = parts + (role.local + e) * role.rows + role.unit;
        float sum = 0;
        EFL_UNROLL
        for (int g = 0; g < Cell::GATES; ++g) sum += part[g * role.units];
        const Slopes slopes = Cell::slopes(saved[e], sum, carried[e], passes);
        carried[e] = slopes.carried;
        float* const to = terms + (role.local + e) * Cell::GATES * role.pitch + role.unit;
        EFL_UNROLL
        for (int g = 0; g < Cell::GATES; ++g) to[g * role.pitch] = g == Cell::LAST ? slopes.last : slopes.gates[g];
        put<Cell>(a, slopes, step, role.example + e, role.unit);
    }
}

// A thread's products are those of its gate's gradients with its unit's column of the weight: a part of the gradient of
// the state.
template <class Cell, int THREADS>
EFL_DEVICE void through_backward(const BackwardArgs& a, ThroughMemory<THREADS>& memory, float* marks) {
    const Role role = role_of<Cell>(a.extents, int(a.turn));
    const int own = role.local * role.rows + role.row, terms = (role.local * Cell::GATES + role.gate) * role.pitch;
    Row<THREADS <= 256 ? NEAR : NEAR_OF_MANY> row = {
        a.weight + role.gate * role.units * role.units + role.unit, role.units, {}};
    fetch(row, role.units);
    Saved saved[EXAMPLES] = {};
    float carried[EXAMPLES] = {};
    fetch_saved<Cell>(a, role, int(a.extents.steps) - 1, saved);
    clear(memory);
    mark(a.passing, role.units, marks);
    barrier();
    const bool passes = marks[role.unit] > 0;
    EFL_ROLLED
    for (int step = int(a.extents.steps) - 1;; --step) {
        if (role.is_last) slope<Cell>(a, role, step, saved, memory.sums, carried, passes, memory.terms);
        if (step == 0) return;
        fetch_saved<Cell>(a, role, step - 1, saved);
        barrier();  // and parts have been read
        float sums[EXAMPLES] = {};
        add_row(sums, row, role.units, memory.terms + terms, Cell::GATES * role.pitch);
        EFL_UNROLL
        for (int e = 0; e < EXAMPLES; ++e)
            if (e < role.examples) memory.sums[own + e * role.rows] = sums[e];
        barrier();  // and terms have been read
    }
}

EFL_KERNEL(rnn_tanh_through_few, 256) {
    EFL_SHARED ThroughMemory<256> memory;
    through_forward<Rnn<false>>(a, memory);
}

EFL_KERNEL(rnn_tanh_back_through_few, 256) {
    EFL_SHARED ThroughMemory<256> memory;
    EFL_SHARED float marks[MOST_UNITS];
    through_backward<Rnn<false>>(a, memory, marks);
}

EFL_KERNEL(rnn_relu_through_few, 256) {
    EFL_SHARED ThroughMemory<256> memory;
    through_forward<Rnn<true>>(a, memory);
}

EFL_KERNEL(rnn_relu_back_through_few, 256) {
    EFL_SHARED ThroughMemory<256> memory;
    EFL_SHARED float marks[MOST_UNITS];
    through_backward<Rnn<true>>(a, memory, marks);
}

EFL_KERNEL(gru_through_few, 256) {
    EFL_SHARED ThroughMemory<256> memory;
    through_forward<Gru>(a, memory);
}

EFL_KERNEL(gru_through_many, 512) {
    EFL_SHARED ThroughMemory<512> memory;
    through_forward<Gru>(a, memory);
}

EFL_KERNEL(lstm_through_few, 256) {
    EFL_SHARED ThroughMemory<256> memory;
    through_forward<Lstm>(a, memory);
}

EFL_KERNEL(lstm_through_many, 512) {
    EFL_SHARED ThroughMemory<512> memory;
    through_forward<Lstm>(a, memory);
}

EFL_KERNEL(gru_back_through_few, 256) {
    EFL_SHARED ThroughMemory<256> memory;
    EFL_SHARED float marks[MOST_UNITS];
    through_backward<Gru>(a, memory, marks);
}

EFL_KERNEL(gru_back_through_many, 512) {
    EFL_SHARED ThroughMemory<512> memory;
    EFL_SHARED float marks[MOST_UNITS];
    through_backward<Gru>(a, memory, marks);
}

EFL_KERNEL(lstm_back_through_few, 256) {
    EFL_SHARED ThroughMemory<256> memory;
    EFL_SHARED float marks[MOST_UNITS];
    through_backward<Lstm>(a, memory, marks);
}

EFL_KERNEL(lstm_back_through_many, 512) {
    EFL_SHARED ThroughMemory<512> memory;
    EFL_SHARED float marks[MOST_UNITS];
    through_backward<Lstm>(a, memory, marks);
}

}  // namespace recurrent
