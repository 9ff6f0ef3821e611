// Recurrent layers of more than 128 units: a launch a step, whose blocks take 16 examples and a few units each: the
// product with the weight and what the cell makes of it. The time of a step is that of its longest chain of loads, so
// many terms are on their way at once, and the warps of a block share the terms, not the sums.
#pragma once
#include "recurrent_cells.cuh"

namespace recurrent {

constexpr int STEP_THREADS = 256, WARPS = 8;
constexpr int SIDE = 16;                       // of a block's square of sums: examples, and rows of the weight or units
constexpr int TERMS = 256, PITCH = TERMS + 4;  // at once; rows of a warp's threads lie in different banks
constexpr int WARP_TERMS = TERMS / WARPS;
constexpr int ROWS = 2, COLUMNS = 4;  // of a thread's sums, 8 and 4 apart

struct StepMemory {
    alignas(16) float left[SIDE * PITCH];   // [examples][terms]
    alignas(16) float right[SIDE * PITCH];  // [sums of an example][terms]
    float parts[WARPS * SIDE * SIDE];       // [warps][examples][sums of an example]
};

// A thread's values of either side, on their way from memory.
struct Next {
    float left[SIDE], right[SIDE];
};

// left: a thread has a term of every example. values [examples, terms].
EFL_DEVICE void fetch_left(Next& next, const float* values, int examples, int terms, int first) {
    const int term = first + int(threadIdx.x);
    EFL_UNROLL
    for (int e = 0; e < SIDE; ++e) next.left[e] = e < examples && term < terms ? values[e * terms + term] : 0.0f;
}

EFL_DEVICE void store_left(const Next& next, StepMemory& memory) {
    EFL_UNROLL
    for (int e = 0; e < SIDE; ++e) memory.left[e * PITCH + int(threadIdx.x)] = next.left[e];
}

// Right sides: of a step forward, rows of so many units' gates, one gate after the other; values [gates, units, units].
template <class Cell>
struct GateRows {
    static constexpr int UNITS = SIDE / Cell::GATES;  // of a block
    const float* values;
    int units, first;
};

template <class Cell>
EFL_DEVICE void fetch_right(Next& next, const GateRows<Cell>& from, int first) {
    constexpr int UNITS = GateRows<Cell>::UNITS;
    const int term = first + int(threadIdx.x);
    EFL_UNROLL
    for (int c = 0; c < UNITS * Cell::GATES; ++c) {
        const int unit = from.first + c % UNITS, row = c / UNITS * from.units + unit;
        next.right[c] = unit < from.units && term < from.units ? from.values[row * from.units + term] : 0.0f;
    }
}

template <class Cell>
EFL_DEVICE void store_right(const Next& next, const GateRows<Cell>&, StepMemory& memory) {
    EFL_UNROLL
    for (int c = 0; c < SIDE; ++c) memory.right[c * PITCH + int(threadIdx.x)] = next.right[c];
}

// Of a step back, 16 units' columns; values [terms, units].
struct UnitColumns {
    const float* values;
    int terms, units, first;
};

EFL_DEVICE void fetch_right(Next& next, const UnitColumns& from, int first) {
    const int unit = from.first + int(threadIdx.x) % SIDE, term = first + int(threadIdx.x) / SIDE;
    EFL_UNROLL
    for (int j = 0; j < SIDE; ++j) {
        const int t = term + j * (STEP_THREADS / SIDE);
        next.right[j] = unit < from.units && t < from.terms ? from.values[t * from.units + unit] : 0.0f;
    }
}

EFL_DEVICE void store_right(const Next& next, const UnitColumns&, StepMemory& memory) {
    const int unit = int(threadIdx.x) % SIDE, term = int(threadIdx.x) / SIDE;
    EFL_UNROLL
    for (int j = 0; j < SIDE; ++j) memory.right[unit * PITCH + term + j * (STEP_THREADS / SIDE)] = next.right[j];
}

struct StepSums {
    float of[ROWS][COLUMNS];
};

// A thread's sums over its warp's terms.
EFL_DEVICE void add_terms(StepSums& sums, const StepMemory& memory) {
    const int warp = int(threadIdx.x) / 32, lane = int(threadIdx.x) % 32;
    const float* left = memory.left + lane / COLUMNS * PITCH + warp * WARP_TERMS;
    const float* right = memory.right + lane % COLUMNS * PITCH + warp * WARP_TERMS;
    EFL_UNROLL
    for (int t = 0; t < WARP_TERMS; t += 4, left += 4, right += 4) {
        float4 rows[ROWS], columns[COLUMNS];
        EFL_UNROLL
        for (int m = 0; m < ROWS; ++m) rows[m] = *reinterpret_cast<const float4*>(left + m * (SIDE / ROWS) * PITCH);
        EFL_UNROLL
        for (int n = 0; n < COLUMNS; ++n)
            columns[n] = *reinterpret_cast<const float4*>(right + n * (SIDE / COLUMNS) * PITCH);
        EFL_UNROLL
        for (int m = 0; m < ROWS; ++m) {
            EFL_UNROLL
            for (int n = 0; n < COLUMNS; ++n) {
                float& sum = sums.of[m][n];
                sum = fmaf(rows[m].x, columns[n].x, sum);
                sum = fmaf(rows[m].y, columns[n].y, sum);
                sum = fmaf(rows[m].z, columns[n].z, sum);
                sum = fmaf(rows[m].w, columns[n].w, sum);
            }
        }
    }
}

// memory.parts: the warps' parts of the block's sums, after the caller's barrier. values [examples, terms]. While terms
// are added the next ones are on their way.
template <class Right>
EFL_DEVICE void multiply(StepMemory& memory, const float* values, int examples, int terms, const Right& right) {
    StepSums sums = {};
    Next next = {};
    fetch_left(next, values, examples, terms, 0);
    fetch_right(next, right, 0);
    for (int first = 0; first < terms; first += TERMS) {
        if (first > 0) barrier();  // what was stored before has been read
        store_left(next, memory);
        store_right(next, right, memory);
        barrier();
        if (first + TERMS < terms) {
            fetch_left(next, values, examples, terms, first + TERMS);
            fetch_right(next, right, first + TERMS);
        }
        add_terms(sums, memory);
    }
    const int warp = int(threadIdx.x) / 32, lane = int(threadIdx.x) % 32;
    float* const to = memory.parts + warp * SIDE * SIDE + lane / COLUMNS * SIDE + lane % COLUMNS;
    EFL_UNROLL
    for (int m = 0; m < ROWS; ++m) {
        EFL_UNROLL
        for (int n = 0; n < COLUMNS; ++n) to[m * (SIDE / ROWS) * SIDE + n * (SIDE / COLUMNS)] = sums.of[m][n];
    }
}

EFL_DEVICE float total(const StepMemory& memory, int example, int column) {
    float sum = 0;
    EFL_UNROLL
    for (int warp = 0; warp < WARPS; ++warp) sum += memory.parts[(warp * SIDE + example) * SIDE + column];
    return sum;
}

// The first threads of a block have a unit of an example each; what they need besides the sums is fetched before.
template <class Cell>
EFL_DEVICE void step_forward(const ForwardArgs& a, StepMemory& memory) {
    constexpr int UNITS = GateRows<Cell>::UNITS;
    const int units = int(a.extents.units), step = int(a.turn), first = int(blockIdx.y) * SIDE;
    const int local = int(threadIdx.x) / UNITS, column = int(threadIdx.x) % UNITS;
    const int example = first + local, unit = int(blockIdx.x) * UNITS + column;
    const bool has_unit = local < SIDE && example < a.extents.batch && unit < units;
    float given[MOST_GATES], biases[MOST_GATES], gates[MOST_GATES], before = 0;
    float* const at = a.gates + gates_of<Cell>(a.extents, step, example, unit);
    if (has_unit) {
        EFL_UNROLL
        for (int g = 0; g < Cell::GATES; ++g) {
            given[g] = at[g * units];
            biases[g] = a.bias ? a.bias[g * units + unit] : 0.0f;
        }
        if (step == 0) begin(a, example, unit);
        else before = (a.start ? a.start : a.states)[position_of(a.extents, step, example, unit)];
    }
    const float* const states = a.states + position_of(a.extents, step, first, 0);
    const GateRows<Cell> right = {a.weight, units, int(blockIdx.x) * UNITS};
    multiply(memory, states, int(a.extents.batch) - first, step == 0 ? 0 : units, right);  // at first they are 0
    barrier();
    if (!has_unit) return;
    EFL_UNROLL
    for (int g = 0; g < Cell::LAST; ++g) {
        gates[g] = Cell::opened(g, given[g], total(memory, local, g * UNITS + column) + biases[g]);
        at[g * units] = gates[g];
    }
    const float sum = total(memory, local, Cell::LAST * UNITS + column) + biases[Cell::LAST];
    put<Cell>(a, Cell::moved(gates, given[Cell::LAST], sum, before), step, example, unit);
}

// Every thread has a unit of an example. The gradient of the state comes from the step after, if there is one.
template <class Cell>
EFL_DEVICE void step_backward(const BackwardArgs& a, StepMemory& memory) {
    const int units = int(a.extents.units), batch = int(a.extents.batch), terms = Cell::GATES * units;
    const int step = int(a.turn), first = int(blockIdx.y) * SIDE, column = int(threadIdx.x) % SIDE;
    const int local = int(threadIdx.x) / SIDE, example = first + local, unit = int(blockIdx.x) * SIDE + column;
    const bool has_unit = example < batch && unit < units, is_first = step + 1 == a.extents.steps;
    Saved saved = {};
    float carried = 0;
    bool passes = true;
    if (has_unit) {
        saved = saved_at<Cell>(a, step, example, unit);
        if (!is_first) carried = a.carried[example * units + unit];
        if (a.marks) passes = a.marks[unit] > 0;
    }
    const float* const after = (a.dhidden ? a.dhidden : a.gates) + gates_of<Cell>(a.extents, step + 1, first, 0);
    const UnitColumns right = {a.weight, terms, units, int(blockIdx.x) * SIDE};
    multiply(memory, after, batch - first, is_first ? 0 : terms, right);
    barrier();
    if (!has_unit) return;
    const Slopes slopes = Cell::slopes(saved, total(memory, local, column), carried, passes);
    a.carried[example * units + unit] = slopes.carried;
    put<Cell>(a, slopes, step, example, unit);
}

EFL_KERNEL(rnn_tanh_step, EFL_RESIDENT(STEP_THREADS, 2)) {
    EFL_SHARED StepMemory memory;
    step_forward<Rnn<false>>(a, memory);
}

EFL_KERNEL(rnn_tanh_back_step, EFL_RESIDENT(STEP_THREADS, 2)) {
    EFL_SHARED StepMemory memory;
    step_backward<Rnn<false>>(a, memory);
}

EFL_KERNEL(rnn_relu_step, EFL_RESIDENT(STEP_THREADS, 2)) {
    EFL_SHARED StepMemory memory;
    step_forward<Rnn<true>>(a, memory);
}

EFL_KERNEL(rnn_relu_back_step, EFL_RESIDENT(STEP_THREADS, 2)) {
    EFL_SHARED StepMemory memory;
    step_backward<Rnn<true>>(a, memory);
}

EFL_KERNEL(gru_step, EFL_RESIDENT(STEP_THREADS, 2)) {
    EFL_SHARED StepMemory memory;
    step_forward<Gru>(a, memory);
}

EFL_KERNEL(lstm_step, EFL_RESIDENT(STEP_THREADS, 2)) {
    EFL_SHARED StepMemory memory;
    step_forward<Lstm>(a, memory);
}

EFL_KERNEL(gru_back_step, EFL_RESIDENT(STEP_THREADS, 2)) {
    EFL_SHARED StepMemory memory;
    step_backward<Gru>(a, memory);
}

EFL_KERNEL(lstm_back_step, EFL_RESIDENT(STEP_THREADS, 2)) {
    EFL_SHARED StepMemory memory;
    step_backward<Lstm>(a, memory);
}

EFL_KERNEL(mark_units, 256) { mark(a.listed, int(a.units), a.marks); }  // one block

}  // namespace recurrent
