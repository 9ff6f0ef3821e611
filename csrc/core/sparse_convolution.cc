// Layout, checks and building of a masked convolution's structure; see sparse_convolution.h.
#include "sparse_convolution.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "check.h"
#include "scratch.h"

namespace efl {

// ---- layout ---------------------------------------------------------------------------------------------------------

SparseAxis::SparseAxis(efl_int64 size, efl_int64 kernel, efl_int64 stride, efl_int64 pad, efl_int64 dil,
                       bool transposed)
    : transposed(transposed), source(size), positions(windows(size, kernel, stride, pad, dil)), step(stride),
      start(-pad), kernel(kernel), stride(stride), pad(pad), dil(dil),
      source_phases(std::min(stride, (kernel - 1) * dil + 1)), row_phases(1), extent((kernel - 1) * dil / stride) {
    if (!transposed) return;
    source = positions, positions = (size + stride - 1) / stride;
    step = 1, start = upwards(kernel - 1);
    source_phases = 1, row_phases = stride, extent = upwards(0) - start;
}

static efl_int64 parts_of(efl_int64 total, efl_int64 most) { return total == 0 ? 0 : (total + most - 1) / most; }

static bool is_whole(const efl_conv2d& c) {
    const bool small = c.height == c.width && (c.height == 2 || c.height == 4);
    const bool plain = c.kernel_h == 3 && c.kernel_w == 3 && c.pad_h == 1 && c.pad_w == 1;
    return small && plain && c.stride_h == 1 && c.stride_w == 1 && c.dil_h == 1 && c.dil_w == 1;
}

// The channels of a block: as many as a tile of 3 x 8 results reads within L1, or more where lists would be short.
static efl_int64 block_of(const SparseLayout& l) {
    const efl_int64 down = std::min<efl_int64>(3, l.down.positions) + l.down.extent;
    const efl_int64 along = std::min<efl_int64>(8, l.along.positions) + l.along.extent;
    const efl_int64 window = l.whole ? l.plane : l.source_phases() * down * along;
    const efl_int64 least = l.whole ? SPARSE_WHOLE_LIST : SPARSE_LIST;
    const efl_int64 long_enough = l.count == 0 ? 1 : parts_of(l.rows * l.channels * least, l.count);
    const efl_int64 most = SPARSE_OFFSETS / std::max(l.plane, l.taps);
    const efl_int64 wanted = std::max(SPARSE_WINDOW / std::max<efl_int64>(window, 1), long_enough);
    return std::max<efl_int64>(1, std::min({wanted, most, l.channels}));
}

SparseLayout::SparseLayout(const efl_conv2d& c, efl_int64 count, bool transposed)
    : conv(c), transposed(transposed), down(c.height, c.kernel_h, c.stride_h, c.pad_h, c.dil_h, transposed),
      along(c.width, c.kernel_w, c.stride_w, c.pad_w, c.dil_w, transposed), whole(is_whole(c)),
      taps(c.kernel_h * c.kernel_w), kinds(whole ? taps : 3),
      rows((transposed ? c.in_channels : c.out_channels) * row_phases()),
      channels(transposed ? c.out_channels : c.in_channels), band(down.positions), count(count) {
    if (whole)
        for (SparseAxis* axis : {&down, &along}) axis->start = axis->extent = 0;
    pitch = along.positions + along.extent;
    plane = source_phases() * phase_plane();
    if (!whole && band > 8 && channels * plane > SPARSE_PLANES) band = SPARSE_BAND;
    plane = source_phases() * phase_plane();
    if (!whole) plane |= 1;  // so that channels do not share the sets of a cache
    const efl_int64 most = block_of(*this);
    blocks = parts_of(channels, most);
    block = blocks ? parts_of(channels, blocks) : 1;
    part = std::max<efl_int64>(1, SPARSE_PART / row_phases()) * row_phases();
    parts = parts_of(rows, part);
    list = (1 + kinds + 1) / 2;
    words = runs_at() + (count + 1) / 2;
}

efl_int64 SparseLayout::offset(efl_int64 tap) const {
    if (whole) return 0;
    const efl_int64 i = tap / conv.kernel_w, j = tap % conv.kernel_w;
    const efl_int64 phase = transposed ? 0 : down.phase(i) * along.source_phases + along.phase(j);
    return phase * phase_plane() + down.shift(i) * pitch + along.shift(j);
}

efl_int64 SparseLayout::row_phase(efl_int64 tap) const {
    if (!transposed) return 0;
    return down.phase(tap / conv.kernel_w) * along.row_phases + along.phase(tap % conv.kernel_w);
}

efl_status sparse_fits(const SparseLayout& l) {
    if (l.conv.groups != 1) return EFL_BAD_ARGUMENT;
    const efl_int64 weights = l.conv.out_channels * l.conv.in_channels * l.taps;
    if (l.count < 0 || l.count > weights || weights > 0xffffffffll) return EFL_BAD_SHAPE;
    const bool fits = l.plane <= SPARSE_OFFSETS && l.taps < SPARSE_OFFSETS && l.row_phases() <= SPARSE_PHASES;
    return fits ? EFL_OK : EFL_BAD_SHAPE;
}

// ---- checks ---------------------------------------------------------------------------------------------------------

static void write_header(const SparseLayout& l, efl_uint32* to) {
    const efl_conv2d& c = l.conv;
    const efl_int64 says[SPARSE_HEADER] = {0x43505345 + l.transposed,
                                           c.in_channels,
                                           c.out_channels,
                                           c.height,
                                           c.width,
                                           c.kernel_h,
                                           c.kernel_w,
                                           c.stride_h,
                                           c.stride_w,
                                           c.pad_h,
                                           c.pad_w,
                                           c.dil_h,
                                           c.dil_w,
                                           l.block,
                                           l.band,
                                           l.count};
    for (efl_int64 i = 0; i < SPARSE_HEADER; ++i) to[i] = efl_uint32(says[i]);
}

static efl_status check_header(const SparseLayout& l, const efl_uint32* structure) {
    efl_uint32 header[SPARSE_HEADER];
    write_header(l, header);
    return std::memcmp(header, structure, sizeof header) ? EFL_BAD_STRUCTURE : EFL_OK;
}

// What a walk over the cells has met.
struct Walk {
    efl_int64 slot = 0, run = 0;
};

// The runs of a list: none may read beyond its block.
static bool runs_inside(const unsigned short* runs, efl_int64 count, efl_int64 most) {
    unsigned short largest = 0;
    for (efl_int64 i = 0; i < count; ++i) largest = runs[i] > largest ? runs[i] : largest;
    return count == 0 || largest <= most;
}

static efl_status check_list(const SparseStructure& s, const unsigned short* list, efl_int64 rows, efl_int64 cells,
                             Walk* walk) {
    const SparseLayout& l = s.layout;
    if (list[0] >= rows) return EFL_BAD_STRUCTURE;
    for (efl_int64 kind = 0; kind < l.kinds; ++kind) {
        const efl_int64 runs = list[1 + kind], length = l.run_length(kind);
        if (walk->slot + runs * length > l.count) return EFL_BAD_STRUCTURE;
        if (!runs_inside(s.runs() + walk->run, runs, cells - length)) return EFL_BAD_STRUCTURE;
        walk->run += runs, walk->slot += runs * length;
    }
    return EFL_OK;
}

static efl_status check_cell(const SparseStructure& s, efl_int64 part, efl_int64 block, Walk* walk) {
    const SparseLayout& l = s.layout;
    const SparseCell& cell = s.cell(part, block);
    if (cell.slot != walk->slot || cell.run != walk->run || cell.lists > l.part_rows(part)) return EFL_BAD_STRUCTURE;
    const efl_int64 channels = std::min(l.block, l.channels - block * l.block);
    // From the first cell of a block to that which the last position of a band reads.
    const efl_int64 reach = l.whole ? l.plane - 1 : (l.band - 1) * l.pitch + l.along.positions - 1;
    const unsigned short* list = s.lists(part, block);
    for (efl_uint32 i = 0; i < cell.lists; ++i, list += 2 * l.list)
        EFL_CHECK(check_list(s, list, l.part_rows(part), channels * l.plane - reach, walk));
    return EFL_OK;
}

efl_status sparse_check(const SparseLayout& l, const efl_uint32* structure) {
    EFL_CHECK(check_header(l, structure));
    Walk walk;
    for (efl_int64 part = 0; part < l.parts; ++part)
        for (efl_int64 block = 0; block < l.blocks; ++block) EFL_CHECK(check_cell({l, structure}, part, block, &walk));
    return walk.slot == l.count ? EFL_OK : EFL_BAD_STRUCTURE;
}

// ---- building -------------------------------------------------------------------------------------------------------

namespace {

using Tap = unsigned short;

constexpr Tap NO_TAP = 0xffff;
constexpr efl_int64 SMALL_KERNEL = 9;      // taps, of which all patterns are remembered
constexpr efl_uint32 MOST_BUCKETS = 1024;  // of a counting sort

// Where the next run of a kind goes.
struct Cursor {
    efl_uint32 run, slot;
};

// The runs of a pair of channels: their kinds, rows' phases, first cells and taps.
struct Run {
    efl_uint32 offset;
    Tap kind, phase, length, taps[3];
};
struct Pattern {
    efl_int64 runs;  // none yet: -1
    Run* run;
};

// One of the two structures while it is built. Tables by channel and by row spare the divisions.
struct Direction {
    const SparseLayout& layout;
    efl_uint32 *const words, *const order;
    Cursor* cursors = nullptr;                                         // [block][row][kind]
    efl_uint32 *offset = nullptr, *phase = nullptr, *place = nullptr;  // of each tap; place: in the order of its cells
    Tap *next = nullptr, *taps = nullptr;  // the tap whose cell lies just behind, or none; a pair's, by cell
    Tap* sorted = nullptr;                 // the lists of a cell
    efl_uint32 *keys = nullptr, *buckets = nullptr;
    efl_uint32 *block = nullptr, *cell = nullptr;  // of each channel: its block, and its first cell there
    Tap** list = nullptr;                          // of each row: its list in block 0
    efl_int64* list_step = nullptr;                // from there to the next block's
    Pattern* patterns = nullptr;
    Pattern other{-1, nullptr};  // of a kernel that is not small

    Tap* runs() const { return reinterpret_cast<Tap*>(words + layout.runs_at()); }
    SparseCell& cell_of(efl_int64 part, efl_int64 of_block) const {
        return reinterpret_cast<SparseCell*>(words + SPARSE_HEADER)[part * layout.blocks + of_block];
    }
    Tap* lists(efl_int64 part, efl_int64 of_block) const {
        return reinterpret_cast<Tap*>(words + layout.lists_at(part, of_block));
    }
    Cursor* cursors_of(efl_int64 row, efl_int64 of_block) const {
        return cursors + (of_block * layout.rows + row) * layout.kinds;
    }
    efl_int64 channel(efl_int64 out, efl_int64 in) const { return layout.transposed ? out : in; }
    efl_int64 first_row(efl_int64 out, efl_int64 in) const {
        return layout.transposed ? in * layout.row_phases() : out;
    }
};

// Carves tables out of scratch memory; without any, only counts.
struct Tables {
    char* base;
    efl_int64 used = 0;

    template <class T>
    void take(T** table, efl_int64 count) {
        *table = reinterpret_cast<T*>(base + used);
        used += (count * efl_int64(sizeof(T)) + 63) / 64 * 64;
    }
};

bool is_small(const SparseLayout& l) { return l.taps <= SMALL_KERNEL; }

void place_tables(Direction* d, Tables* tables) {
    const SparseLayout& l = d->layout;
    tables->take(&d->cursors, l.rows * l.blocks * l.kinds);
    for (efl_uint32** table : {&d->offset, &d->phase, &d->place}) tables->take(table, l.taps);
    for (Tap** table : {&d->next, &d->taps}) tables->take(table, l.taps);
    tables->take(&d->sorted, l.part * 2 * l.list);
    tables->take(&d->keys, l.part);
    tables->take(&d->buckets, MOST_BUCKETS);
    for (efl_uint32** table : {&d->block, &d->cell}) tables->take(table, l.channels);
    tables->take(&d->list, l.rows);
    tables->take(&d->list_step, l.rows);
    tables->take(&d->patterns, is_small(l) ? efl_int64(1) << l.taps : 0);
    tables->take(&d->other.run, l.taps);
    if (!is_small(l)) return;
    Run* runs;
    tables->take(&runs, l.taps << l.taps);
    if (!tables->base) return;
    for (efl_int64 i = 0; i < efl_int64(1) << l.taps; ++i) d->patterns[i] = {-1, runs + i * l.taps};
}

// Runs are sought by phase of the row, then by cell; on whole maps there are none to seek.
void find_places(Direction* d) {
    const efl_int64 taps = d->layout.taps;
    for (efl_int64 t = 0; t < taps; ++t) {
        d->offset[t] = efl_uint32(d->layout.offset(t)), d->phase[t] = efl_uint32(d->layout.row_phase(t));
        d->taps[t] = Tap(t);
    }
    const bool whole = d->layout.whole;
    std::sort(d->taps, d->taps + taps, [=](Tap a, Tap b) {
        if (whole) return a < b;
        return d->phase[a] != d->phase[b] ? d->phase[a] < d->phase[b] : d->offset[a] < d->offset[b];
    });
    for (efl_int64 i = 0; i < taps; ++i) {
        const Tap tap = d->taps[i], after = i + 1 < taps ? d->taps[i + 1] : NO_TAP;
        const bool joins =
            !whole && after != NO_TAP && d->phase[after] == d->phase[tap] && d->offset[after] == d->offset[tap] + 1;
        d->place[tap] = efl_uint32(i), d->next[tap] = joins ? after : NO_TAP;
    }
}

void find_steps(Direction* d) {
    const SparseLayout& l = d->layout;
    for (efl_int64 c = 0; c < l.channels; ++c)
        d->block[c] = efl_uint32(c / l.block), d->cell[c] = efl_uint32(c % l.block * l.plane);
    for (efl_int64 row = 0; row < l.rows; ++row) {
        const efl_int64 part = row / l.part;
        d->list[row] = l.blocks ? d->lists(part, 0) + row % l.part * 2 * l.list : nullptr;
        d->list_step[row] = 2 * l.list * l.part_rows(part);
    }
}

// The runs of ascending taps.
void find_runs(const Direction& d, const Tap* taps, efl_int64 count, Pattern* found) {
    for (efl_int64 i = 0; i < count; ++i) {  // insertion, from the end that is likely to be in order
        const Tap tap = taps[d.layout.transposed ? count - 1 - i : i];
        efl_int64 at = i;
        for (; at > 0 && d.place[d.taps[at - 1]] > d.place[tap]; --at) d.taps[at] = d.taps[at - 1];
        d.taps[at] = tap;
    }
    found->runs = 0;
    for (efl_int64 i = 0; i < count;) {
        const Tap first = d.taps[i];
        Run run{d.offset[first], 0, Tap(d.phase[first]), 1, {first, 0, 0}};
        for (Tap tap = first; run.length < 3 && i + run.length < count && d.next[tap] == d.taps[i + run.length];)
            tap = run.taps[run.length] = d.taps[i + run.length], ++run.length;
        run.kind = !d.layout.whole ? Tap(3 - run.length) : d.layout.transposed ? Tap(8 - first) : first;
        found->run[found->runs++] = run;
        i += run.length;
    }
}

// The taps of a pair of channels: as bits for a small kernel, or else as a list.
struct Pair {
    efl_int64 in;
    efl_uint32 bits;
    const Tap* taps;
    efl_int64 count;
};

const Pattern& runs_of(Direction& d, const Pair& pair) {
    if (!is_small(d.layout)) {
        find_runs(d, pair.taps, pair.count, &d.other);
        return d.other;
    }
    Pattern& known = d.patterns[pair.bits];
    if (known.runs < 0) {
        Tap taps[SMALL_KERNEL] = {};
        efl_int64 count = 0;
        for (efl_int64 t = 0; t < d.layout.taps; ++t)
            if (pair.bits >> t & 1) taps[count++] = Tap(t);
        find_runs(d, taps, count, &known);
    }
    return known;
}

// Bit i: byte i is not 0.
efl_uint32 bits_of(uint64_t bytes) {
    const uint64_t low = 0x7f7f7f7f7f7f7f7full;
    const uint64_t set = ((((bytes & low) + low) | bytes) & ~low) >> 7;
    return efl_uint32(set * 0x0102040810204080ull >> 56);
}

uint64_t load_bytes(const efl_uint8* from, efl_int64 count) {
    uint64_t bytes = 0;
    if (count >= 8) std::memcpy(&bytes, from, 8);
    else
        for (efl_int64 i = 0; i < count; ++i) bytes |= uint64_t(from[i]) << 8 * i;
    return bytes;
}

// visit(pair) for each input that has weights of one output, whose bytes of the mask are `row`.
template <class Visit>
void each_pair(const efl_uint8* row, const SparseLayout& l, Tap* taps, const Visit& visit) {
    for (efl_int64 in = 0; in < l.channels; ++in, row += l.taps) {
        Pair pair{in, 0, taps, 0};
        if (is_small(l)) {
            pair.bits = bits_of(load_bytes(row, l.taps));
            if (l.taps > 8) pair.bits |= efl_uint32(row[8] != 0) << 8;
            if (pair.bits) visit(pair);
            continue;
        }
        for (efl_int64 at = 0; at < l.taps; at += 8) {
            efl_uint32 bits = bits_of(load_bytes(row + at, l.taps - at));
            for (; bits; bits &= bits - 1) taps[pair.count++] = Tap(at + __builtin_ctz(bits));
        }
        if (pair.count) visit(pair);
    }
}

void count_runs(Direction& d, efl_int64 out, const Pair& pair) {
    const Pattern& found = runs_of(d, pair);
    const efl_int64 row = d.first_row(out, pair.in);
    const efl_uint32 block = d.block[d.channel(out, pair.in)];
    for (efl_int64 i = 0; i < found.runs; ++i) {
        const efl_int64 of = row + found.run[i].phase;
        ++d.list[of][block * d.list_step[of] + 1 + found.run[i].kind];
    }
}

efl_uint32 weights_of(const SparseLayout& l, const Tap* list) {
    efl_int64 weights = 0;
    for (efl_int64 kind = 0; kind < l.kinds; ++kind) weights += list[1 + kind] * l.run_length(kind);
    return efl_uint32(weights);
}

// keys: the rows of a cell, most weights first, then by row.
void sort_keys(const Direction& d, efl_int64 rows, efl_uint32 most) {
    efl_uint32* const keys = d.keys;
    if (most >= MOST_BUCKETS) {
        std::sort(keys, keys + rows);
        return;
    }
    std::memset(d.buckets, 0, (most + 1) * sizeof(efl_uint32));
    for (efl_int64 i = 0; i < rows; ++i) ++d.buckets[most - (SPARSE_OFFSETS - (keys[i] >> 16))];
    efl_uint32 before = 0;
    for (efl_uint32 i = 0; i <= most; ++i) {
        const efl_uint32 count = d.buckets[i];
        d.buckets[i] = before, before += count;
    }
    efl_uint32* const to = reinterpret_cast<efl_uint32*>(d.sorted);
    for (efl_int64 i = 0; i < rows; ++i) to[d.buckets[most - (SPARSE_OFFSETS - (keys[i] >> 16))]++] = keys[i];
    std::memcpy(keys, to, size_t(rows) * sizeof(efl_uint32));
}

// Most weights first, then by row. How many lists have any.
efl_uint32 sort_cell(const Direction& d, efl_int64 part, efl_int64 block) {
    const SparseLayout& l = d.layout;
    const efl_int64 rows = l.part_rows(part), size = 2 * l.list;
    Tap* const lists = d.lists(part, block);
    efl_uint32 filled = 0, most = 0;
    for (efl_int64 row = 0; row < rows; ++row) {
        lists[row * size] = Tap(row);
        const efl_uint32 weights = weights_of(l, lists + row * size);
        filled += weights > 0, most = std::max(most, weights);
        d.keys[row] = (efl_uint32(SPARSE_OFFSETS) - weights) << 16 | efl_uint32(row);
    }
    sort_keys(d, rows, most);
    std::memcpy(d.sorted, lists, size_t(rows * size) * sizeof(Tap));
    for (efl_int64 i = 0; i < rows; ++i)
        std::memcpy(lists + i * size, d.sorted + (d.keys[i] & 0xffff) * size, size_t(size) * sizeof(Tap));
    return filled;
}

// Sorts the lists, says where each cell begins, and puts the cursors there.
void begin_runs(const Direction& d) {
    const SparseLayout& l = d.layout;
    Cursor at{0, 0};
    for (efl_int64 part = 0; part < l.parts; ++part)
        for (efl_int64 block = 0; block < l.blocks; ++block) {
            const efl_uint32 filled = sort_cell(d, part, block);
            d.cell_of(part, block) = {at.slot, at.run, filled};
            const Tap* list = d.lists(part, block);
            for (efl_uint32 i = 0; i < filled; ++i, list += 2 * l.list) {
                Cursor* const cursor = d.cursors_of(part * l.part + list[0], block);
                for (efl_int64 kind = 0; kind < l.kinds; ++kind) {
                    cursor[kind] = at;
                    at.run += list[1 + kind];
                    at.slot += efl_uint32(list[1 + kind] * l.run_length(kind));
                }
            }
        }
}

// placed(tap, slot) for each weight of a pair of channels, whose runs are written.
template <class Placed>
void write_runs(Direction& d, Tap* runs, efl_int64 out, const Pair& pair, const Placed& placed) {
    const Pattern& found = runs_of(d, pair);
    const efl_int64 channel = d.channel(out, pair.in);
    Cursor* const cursors = d.cursors_of(d.first_row(out, pair.in), d.block[channel]);
    for (efl_int64 i = 0; i < found.runs; ++i) {
        const Run& run = found.run[i];
        Cursor& cursor = cursors[run.phase * d.layout.kinds + run.kind];
        runs[cursor.run++] = Tap(d.cell[channel] + run.offset);
        for (efl_int64 k = 0; k < run.length; ++k) placed(run.taps[k], cursor.slot++);
    }
}

efl_int64 count_bytes(const efl_uint8* mask, efl_int64 size) {
    efl_int64 count = 0;
    for (efl_int64 i = 0; i < size; ++i) count += mask[i] != 0;
    return count;
}

void build(const efl_uint8* mask, Direction& forward, Direction& transposed, Tap* taps, efl_uint32* slots) {
    for (Direction* d : {&forward, &transposed}) {
        std::memset(d->words, 0, size_t(d->layout.words) * sizeof(efl_uint32));
        write_header(d->layout, d->words);
        find_places(d);
        find_steps(d);
    }
    const SparseLayout& l = forward.layout;
    const efl_int64 row = l.channels * l.taps;
    for (efl_int64 out = 0; out < l.rows; ++out)
        each_pair(mask + out * row, l, taps, [&](const Pair& pair) {
            count_runs(forward, out, pair);
            count_runs(transposed, out, pair);
        });
    begin_runs(forward);
    begin_runs(transposed);
    Tap *const runs = forward.runs(), *const runs_t = transposed.runs();
    for (efl_int64 out = 0; out < l.rows; ++out)
        each_pair(mask + out * row, l, taps, [&](const Pair& pair) {
            const efl_uint32 first = efl_uint32((out * l.channels + pair.in) * l.taps);
            write_runs(forward, runs, out, pair, [&](Tap tap, efl_uint32 slot) {
                forward.order[slot] = first + tap;
                slots[tap] = slot;
            });
            write_runs(transposed, runs_t, out, pair,
                       [&](Tap tap, efl_uint32 slot) { transposed.order[slot] = slots[tap]; });
        });
}

}  // namespace

efl_status sparse_build(const efl_uint8* mask, const SparseLayout& forward, efl_uint32* structure, efl_uint32* order,
                        const SparseLayout& transposed, efl_uint32* structure_t, efl_uint32* order_t) {
    const efl_conv2d& c = forward.conv;
    if (count_bytes(mask, c.out_channels * c.in_channels * forward.taps) != forward.count) return EFL_BAD_ARGUMENT;
    Direction down{forward, structure, order}, up{transposed, structure_t, order_t};
    Tap* taps;
    efl_uint32* slots;
    const auto place_all = [&](char* base) {
        Tables tables{base};
        place_tables(&down, &tables);
        place_tables(&up, &tables);
        tables.take(&taps, forward.taps);
        tables.take(&slots, forward.taps);
        return tables.used;
    };
    char* const base = static_cast<char*>(scratch(place_all(nullptr)));
    if (!base) return EFL_NO_MEMORY;
    place_all(base);
    build(mask, down, up, taps, slots);
    return EFL_OK;
}

}  // namespace efl
