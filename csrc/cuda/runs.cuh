// The runs of values that normalisations and sums are over, how a block's threads share them, and sums over those
// threads. A run is a channel of all images, or a group of channels, or one position of them, of one image; it is
// walked plane by plane. Nothing is known here of what is done with the values.
#pragma once
#include "divisor.cuh"
#include "places.cuh"

namespace runs {

constexpr int RUN_BITS = 8, RUN_THREADS = 1 << RUN_BITS;  // of a block

// x is [images, channels, inner, lanes]; a run takes one lane of `rows` planes, `step` planes apart.
// Channels: size 1, rows of images, a step of `channels`. Groups of an image: rows = size, a step of 1.
// What a thread has to do with: one run, in a team.
struct Part {
    bool exists;
    int run;     // its number
    int id;      // of the channel or group
    int number;  // of the channel or group among those of all images
    int plane, lane;
    int slot;          // of the run among those of the block
    int member, team;  // the thread among those that share the run
};

EFL_DEVICE int runs_of(const Runs& runs) { return int(runs.images * runs.ids.count * runs.lanes); }

EFL_DEVICE Part part_of(const Runs& runs) {
    const int thread = int(threadIdx.x), beside = int(runs.beside), team = int(runs.team);
    const int within = thread & ((1 << beside) - 1), above = thread >> (beside + team);
    const int slot = (above << beside) + within, run = (int(blockIdx.x) << (RUN_BITS - team)) + slot;
    Part part = {run < runs_of(runs), run, 0, 0, 0, 0, slot, thread >> beside & ((1 << team) - 1), 1 << team};
    if (!part.exists) return part;
    const Split chosen = split(run, int(runs.lanes), runs.by_lanes);
    const Split image = split(chosen.whole, int(runs.ids.count), runs.by_count);
    part.id = id_at(runs.ids, image.rest);
    part.lane = chosen.rest;
    part.number = image.whole * int(runs.all) + part.id;
    part.plane = part.number * int(runs.size);
    return part;
}

// Where a run's values are, by plane and cell.
struct Address {
    int base, row_step, column_step;
};

EFL_DEVICE int position_at(const Address& address, int row, int column) {
    return address.base + row * address.row_step + column * address.column_step;
}

// Of arrays with planes of so many cells.
EFL_DEVICE Address address_of(const Runs& runs, const Part& part, int cells) {
    const int lanes = int(runs.lanes);
    return {part.plane * cells * lanes + part.lane, int(runs.step) * cells * lanes, lanes};
}

// A thread's positions among rows of `length`, in turns.
struct Walk {
    int row, column, left, step_row, step_column, length;
};

// Its share of this block's piece of rows * length positions.
EFL_DEVICE Walk walk_of(const Runs& runs, const Part& part, int length) {
    const unsigned all = unsigned(runs.rows) * length, pieces = unsigned(runs.pieces);
    const unsigned piece = (all + pieces - 1) / pieces, first = blockIdx.y * piece;
    const unsigned begin = first + part.member, end = smaller(all, first + piece), width = length;
    if (!part.exists || begin >= end) return {0, 0, 0, 0, 0, 1};
    const int row = int(begin / width), step = int(unsigned(part.team) / width);
    return {row,  int(begin) - row * length, int(end - begin + part.team - 1) >> int(runs.team),
            step, part.team - step * length, length};
}

EFL_DEVICE void advance(Walk& walk) {
    walk.row += walk.step_row;
    walk.column += walk.step_column;
    if (walk.column < walk.length) return;
    walk.column -= walk.length;
    ++walk.row;
}

// use(row, column, load(row, column)) for each position, AT_ONCE loads before what is done with them: memory is far
// away.
template <int AT_ONCE, class Load, class Use>
EFL_DEVICE void each_position(Walk walk, const Load& load, const Use& use) {
    EFL_ROLLED
    for (; walk.left > 0; walk.left -= AT_ONCE) {
        int rows[AT_ONCE], columns[AT_ONCE];
        decltype(load(0, 0)) found[AT_ONCE];
        EFL_UNROLL
        for (int i = 0; i < AT_ONCE; ++i) {
            rows[i] = walk.row;
            columns[i] = walk.column;
            if (i < walk.left) found[i] = load(walk.row, walk.column);
            advance(walk);
        }
        EFL_UNROLL
        for (int i = 0; i < AT_ONCE; ++i)
            if (i < walk.left) use(rows[i], columns[i], found[i]);
    }
}

// ---- neighbours -----------------------------------------------------------------------------------------------------

// Whether a thread takes four neighbours of a plane at a time: planes of whole fours, not side by side, on 16 bytes.
template <class... Arrays>
EFL_DEVICE bool takes_fours(const Runs& runs, const Arrays*... arrays) {
    return runs.lanes == 1 && runs.inner % 4 == 0 && are_aligned(arrays...);
}

template <int WIDTH>
struct Values {
    float of[WIDTH];
};

template <int WIDTH>
EFL_DEVICE Values<WIDTH> values_at(const float* array, int position) {
    Values<WIDTH> found;
    if constexpr (WIDTH == 4) read_four(array + position, found.of);
    else found.of[0] = array[position];
    return found;
}

template <int WIDTH>
EFL_DEVICE void put_values(float* array, int position, const Values<WIDTH>& values) {
    if constexpr (WIDTH == 4) write_neighbours(array + position, true, values.of);
    else array[position] = values.of[0];
}

// Of planes whose cells are WIDTH values each.
template <int WIDTH>
EFL_DEVICE Address address_of_cells(const Runs& runs, const Part& part) {
    Address address = address_of(runs, part, int(runs.inner));
    address.column_step *= WIDTH;
    return address;
}

// ---- sums ---------------------------------------------------------------------------------------------------------

struct Pair {
    double first, second;
};

EFL_DEVICE void add_to(Pair& sum, const Pair& more) {
    sum.first += more.first;
    sum.second += more.second;
}

// The sums of a run's team, for its first thread, in an order that depends on the team's size alone. The others have
// given theirs. shared [RUN_THREADS].
EFL_DEVICE Pair team_sum(const Runs& runs, const Part& part, Pair value, Pair* shared) {
    const int thread = int(threadIdx.x), beside = int(runs.beside);
    shared[thread] = value;
    EFL_ROLLED
    for (int half = part.team / 2; half > 0; half /= 2) {
        barrier();
        if (part.member < half) add_to(shared[thread], shared[thread + (half << beside)]);
    }
    return shared[thread];
}

// A thread's share of what blocks have left of a run's pieces, [pieces][runs].
EFL_DEVICE Pair pieces_of(const Runs& runs, const Part& part, const Pair* left) {
    Pair sum = {0, 0};
    EFL_ROLLED
    for (int i = part.member; part.exists && i < int(runs.pieces); i += part.team)
        add_to(sum, left[i * runs_of(runs) + part.run]);
    return sum;
}

}  // namespace runs
