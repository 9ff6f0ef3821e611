// The structure of a masked convolution: how the positions of its weights lie in memory, which follows from the layer
// and from how many weights there are. No arithmetic on values, and nothing of an instruction set.
//
// Both directions are one correlation: rows of results sum over channels of a source, whose cells are vectors of one
// cell of several images. Forward, rows are output channels and channels are inputs; transposed, rows are inputs, once
// for each phase of the stride, and channels are outputs. Taps whose cells lie side by side are merged into runs of up
// to three (kinds 0, 1, 2: three, two, one); on maps of 4x4 and 2x2 there is a list for each tap instead (kind = tap).
//
// structure  uint32: HEADER words (the layer), a SparseCell for each part of the rows and block of the channels, part
//            by part; a list for each row of each cell; a uint16 for each run, its first cell within its block.
// list       uint16: the row within its part, then how many runs of each kind; filled up to whole words. Lists of a
//            cell are sorted by their weights, most first, then by row; those without any come last.
// slots      the weights of a cell, list by list, kind by kind, run by run: the order of `values`.
#pragma once
#include "geometry.h"

namespace efl {

constexpr efl_int64 SPARSE_HEADER = 16;       // words
constexpr efl_int64 SPARSE_OFFSETS = 65535;   // the most that 16 bits hold
constexpr efl_int64 SPARSE_WINDOW = 400;      // vectors that a tile reads of a block: they stay in L1
constexpr efl_int64 SPARSE_LIST = 10;         // weights of a list below which blocks grow beyond that
constexpr efl_int64 SPARSE_WHOLE_LIST = 120;  // the same of a list for each tap
constexpr efl_int64 SPARSE_PART = 128;        // rows at a time, or one channel's phases if those are more
constexpr efl_int64 SPARSE_PHASES = 4096;     // the most phases of a stride
constexpr efl_int64 SPARSE_PLANES = 8192;     // vectors of a source up to which it is not cut into bands
constexpr efl_int64 SPARSE_BAND = 6;          // rows of results of a band

struct SparseCell {
    efl_uint32 slot, run, lists;  // the first of each, and how many lists are not empty
};

// One axis of the correlation: position q and tap k read cell q + shift(k) of the source's phase(k), which is row
// (q + shift(k)) * step + start + phase(k) of it. Transposed, phase(k) is the result's.
struct SparseAxis {
    bool transposed;
    efl_int64 source, positions, step, start;
    efl_int64 kernel, stride, pad, dil;
    efl_int64 source_phases, row_phases;
    efl_int64 extent;  // the largest shift

    SparseAxis(efl_int64 size, efl_int64 kernel, efl_int64 stride, efl_int64 pad, efl_int64 dil, bool transposed);
    efl_int64 shift(efl_int64 tap) const { return transposed ? upwards(tap) - start : tap * dil / stride; }
    efl_int64 phase(efl_int64 tap) const {
        return transposed ? upwards(tap) * stride - (pad - tap * dil) : tap * dil % stride;
    }

private:
    // (pad - tap * dil) / stride, rounded up.
    efl_int64 upwards(efl_int64 tap) const {
        const efl_int64 over = pad - tap * dil;
        return over >= 0 ? (over + stride - 1) / stride : -(-over / stride);
    }
};

struct SparseLayout {
    efl_conv2d conv;
    bool transposed;
    SparseAxis down, along;
    bool whole;  // a small map without halo, and a list for each tap
    efl_int64 taps, kinds;
    efl_int64 rows, channels;      // rows counts phases
    efl_int64 band, pitch, plane;  // rows of results at a time; vectors of a source's row, and of a channel
    efl_int64 block, blocks;       // channels of a block
    efl_int64 part, parts;         // rows of a part: all phases of a channel
    efl_int64 list, words, count;  // words of a list and of the whole structure; weights

    SparseLayout(const efl_conv2d& conv, efl_int64 count, bool transposed);
    efl_int64 source_phases() const { return down.source_phases * along.source_phases; }
    efl_int64 row_phases() const { return down.row_phases * along.row_phases; }
    efl_int64 band_rows() const { return band + down.extent; }
    efl_int64 phase_plane() const { return band_rows() * pitch; }
    efl_int64 part_rows(efl_int64 number) const {
        const efl_int64 rest = rows - number * part;
        return rest < part ? rest : part;
    }
    efl_int64 run_length(efl_int64 kind) const { return whole ? 1 : 3 - kind; }
    efl_int64 lists_at(efl_int64 number, efl_int64 of_block) const {
        const efl_int64 before = number * part * blocks + of_block * part_rows(number);
        return SPARSE_HEADER + 3 * parts * blocks + list * before;
    }
    efl_int64 runs_at() const { return SPARSE_HEADER + 3 * parts * blocks + list * rows * blocks; }
    // Of a tap: its cell at position 0 within a channel, and the phase of its rows.
    efl_int64 offset(efl_int64 tap) const;
    efl_int64 row_phase(efl_int64 tap) const;
};

// A structure as its readers see it.
struct SparseStructure {
    const SparseLayout& layout;
    const efl_uint32* words;

    const SparseCell& cell(efl_int64 part, efl_int64 block) const {
        return reinterpret_cast<const SparseCell*>(words + SPARSE_HEADER)[part * layout.blocks + block];
    }
    const unsigned short* lists(efl_int64 part, efl_int64 block) const {
        return reinterpret_cast<const unsigned short*>(words + layout.lists_at(part, block));
    }
    const unsigned short* runs() const { return reinterpret_cast<const unsigned short*>(words + layout.runs_at()); }
};

// Whether the layer can have a structure at all: no groups, at most 2^32 weights, and offsets of 16 bits.
efl_status sparse_fits(const SparseLayout& layout);
// The first SPARSE_HEADER words of a layer's structure.
void sparse_header(const SparseLayout& layout, efl_uint32* to);
// EFL_BAD_STRUCTURE unless it was made for this layer with so many weights, and all that it says is in range.
efl_status sparse_check(const SparseLayout& layout, const efl_uint32* structure);

}  // namespace efl
