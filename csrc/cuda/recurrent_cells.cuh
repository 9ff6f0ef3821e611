// What an RNN, a GRU and an LSTM do at a unit of an example in a step, either way; products with states are made
// elsewhere. A cell carries a value of its own from step to step: the unit's state, or what an LSTM calls its cell.
#pragma once
#include "activation.cuh"

namespace recurrent {

constexpr int MOST_GATES = 4;

// Of a step forward: the last gate, what is kept beside the gates, what is carried, and the state.
struct Moved {
    float last, beside, carried, state;
};

// What a step back reads of a unit. before: the state or cell before the step; beside: as a step forward kept it.
struct Saved {
    float dy, gates[MOST_GATES], before, beside;
};

// Of a step back: gradients of what the input gave the gates. The products with states get the same, but for the last.
struct Slopes {
    float gates[MOST_GATES], last, carried;
};

EFL_DEVICE float less_square(float y) { return 1 - y * y; }  // the slope of tanh
EFL_DEVICE float slope_of_sigmoid(float y) { return y * (1 - y); }

// The rectifier's slope is that of its result, too.
template <bool RELU>
struct Rnn {
    static constexpr int GATES = 1, LAST = 0;

    EFL_DEVICE float opened(int, float given, float sum) { return given + sum; }

    EFL_DEVICE Moved moved(const float (&)[MOST_GATES], float given, float sum, float) {
        const float total = given + sum, state = RELU ? (total < 0 ? 0.0f : total) : tanhf(total);
        return {state, state, state, state};
    }

    EFL_DEVICE Slopes slopes(const Saved& saved, float product, float, bool passes) {
        const float state = saved.gates[0], grad = saved.dy + product;
        const float slope = RELU ? (state > 0 ? 1.0f : 0.0f) : less_square(state);
        const float through = passes ? grad * slope : 0.0f;
        return {{through, 0.0f, 0.0f, 0.0f}, through, 0.0f};
    }
};

struct Gru {
    static constexpr int GATES = 3, LAST = 2;

    EFL_DEVICE float opened(int, float given, float sum) { return sigmoid(given + sum); }

    EFL_DEVICE Moved moved(const float (&gates)[MOST_GATES], float given, float sum, float before) {
        const float fresh = tanhf(fmaf(gates[0], sum, given)), state = fmaf(gates[1], before - fresh, fresh);
        return {fresh, sum, state, state};
    }

    EFL_DEVICE Slopes slopes(const Saved& saved, float product, float carried, bool passes) {
        const float r = saved.gates[0], z = saved.gates[1], fresh = saved.gates[2];
        const float grad = saved.dy + product + carried;
        const float da = passes ? grad * (1 - z) * less_square(fresh) : 0.0f;
        const float dz = passes ? grad * (saved.before - fresh) * slope_of_sigmoid(z) : 0.0f;
        const float dr = passes ? da * saved.beside * slope_of_sigmoid(r) : 0.0f;
        return {{dr, dz, da, 0.0f}, da * r, grad * z};
    }
};

struct Lstm {
    static constexpr int GATES = 4, LAST = 3;

    EFL_DEVICE float opened(int gate, float given, float sum) {
        return gate == 2 ? tanhf(given + sum) : sigmoid(given + sum);
    }

    EFL_DEVICE Moved moved(const float (&gates)[MOST_GATES], float given, float sum, float before) {
        const float open = sigmoid(given + sum), cell = fmaf(gates[1], before, gates[0] * gates[2]);
        return {open, cell, cell, open * tanhf(cell)};
    }

    EFL_DEVICE Slopes slopes(const Saved& saved, float product, float carried, bool passes) {
        const float i = saved.gates[0], f = saved.gates[1], g = saved.gates[2], o = saved.gates[3];
        const float grad = saved.dy + product, curve = tanhf(saved.beside);
        const float dcell = fmaf(grad * o, less_square(curve), carried);
        const float di = passes ? dcell * g * slope_of_sigmoid(i) : 0.0f;
        const float df = passes ? dcell * saved.before * slope_of_sigmoid(f) : 0.0f;
        const float dg = passes ? dcell * i * less_square(g) : 0.0f;
        const float dout = passes ? grad * curve * slope_of_sigmoid(o) : 0.0f;
        return {{di, df, dg, dout}, dout, dcell * f};
    }
};

// ---- what both ways of making the steps are given ------------------------------------------------------------------

EFL_DEVICE int position_of(const Extents& extents, int step, int example, int unit) {
    return (step * int(extents.batch) + example) * int(extents.units) + unit;
}

// The position of a unit's first gate; others are `units` further each.
template <class Cell>
EFL_DEVICE int gates_of(const Extents& extents, int step, int example, int unit) {
    return (step * int(extents.batch) + example) * Cell::GATES * int(extents.units) + unit;
}

template <class Cell>
EFL_DEVICE Saved saved_at(const BackwardArgs& a, int step, int example, int unit) {
    const int at = position_of(a.extents, step, example, unit), units = int(a.extents.units);
    Saved saved = {a.dy[at], {}, a.before[at], a.beside[at]};
    const float* const gates = a.gates + gates_of<Cell>(a.extents, step, example, unit);
    EFL_UNROLL
    for (int g = 0; g < Cell::GATES; ++g) saved.gates[g] = gates[g * units];
    return saved;
}

template <class Cell>
EFL_DEVICE void put(const BackwardArgs& a, const Slopes& slopes, int step, int example, int unit) {
    const int at = gates_of<Cell>(a.extents, step, example, unit), units = int(a.extents.units);
    EFL_UNROLL
    for (int g = 0; g < Cell::GATES; ++g) {
        a.gates[at + g * units] = slopes.gates[g];
        if (a.dhidden) a.dhidden[at + g * units] = g == Cell::LAST ? slopes.last : slopes.gates[g];
    }
}

// A step's last gate and what follows from it; the gates before it are the caller's to write.
template <class Cell>
EFL_DEVICE void put(const ForwardArgs& a, const Moved& moved, int step, int example, int unit) {
    const int at = position_of(a.extents, step, example, unit), units = int(a.extents.units);
    a.gates[gates_of<Cell>(a.extents, step, example, unit) + Cell::LAST * units] = moved.last;
    if (a.beside) a.beside[at] = moved.beside;
    a.states[at + int(a.extents.batch) * units] = moved.state;
}

EFL_DEVICE void begin(const ForwardArgs& a, int example, int unit) {
    const int at = example * int(a.extents.units) + unit;
    a.states[at] = 0;
    if (a.start) a.start[at] = 0;
}

// marks: 1 for units that are listed and 0 for others, once the block has come to its next barrier.
EFL_DEVICE void mark(const Ids& listed, int units, float* marks) {
    const int thread = int(threadIdx.x), threads = int(blockDim.x);
    for (int i = thread; i < units; i += threads) marks[i] = listed.list ? 0.0f : 1.0f;
    if (!listed.list) return;
    barrier();
    for (int i = thread; i < listed.count; i += threads) marks[listed.list[i]] = 1.0f;
}

}  // namespace recurrent
