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
    const efl_int64 long_enough = l.count == 0 ? 1 : parts_of(l.rows * l.channels, l.count) * least;
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
    const efl_int64 says[SPARSE_HEADER] = {
        0x43505345 + l.transposed, c.in_channels, c.out_channels, c.height,   c.width,    c.kernel_h, c.kernel_w,
        c.stride_h,                c.stride_w,    c.pad_h,        c.pad_w,    c.dil_h,    c.dil_w,    l.block,
        l.band,                    l.count};
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
        for (efl_int64 block = 0; block < l.blocks; ++block)
            EFL_CHECK(check_cell({l, structure}, part, block, &walk));
    return walk.slot == l.count ? EFL_OK : EFL_BAD_STRUCTURE;
}

// ---- building -------------------------------------------------------------------------------------------------------

namespace {

using Tap = unsigned short;

// Where the next run of a kind goes.
struct Cursor {
    efl_uint32 run, slot;
};

// One of the two structures while it is built.
struct Direction {
    const SparseLayout& layout;
    efl_uint32 *const words, *const order;
    Cursor* cursors = nullptr;  // [row][block][kind]
    efl_uint32 *offset = nullptr, *phase = nullptr, *place = nullptr;  // of each tap; place: in the order of its cells
    Tap* next = nullptr;            // the tap whose cell lies just behind, or none
    Tap* sorted = nullptr;          // the lists of a cell
    efl_uint32* keys = nullptr;     // of a cell's lists
    Tap* taps = nullptr;            // of a pair of channels, in the order of their cells

    Tap* runs() const { return reinterpret_cast<Tap*>(words + layout.runs_at()); }
    SparseCell& cell(efl_int64 part, efl_int64 block) const {
        return reinterpret_cast<SparseCell*>(words + SPARSE_HEADER)[part * layout.blocks + block];
    }
    Tap* lists(efl_int64 part, efl_int64 block) const {
        return reinterpret_cast<Tap*>(words + layout.lists_at(part, block));
    }
    Cursor* cursors_of(efl_int64 row, efl_int64 block) const {
        return cursors + (row * layout.blocks + block) * layout.kinds;
    }
    efl_int64 kind(Tap first, efl_int64 length) const {
        return !layout.whole ? 3 - length : layout.transposed ? 8 - first : first;
    }
};

constexpr Tap NO_TAP = 0xffff;

template <class T>
T* take(efl_int64* used, char* base, efl_int64 count) {
    T* const at = reinterpret_cast<T*>(base + *used);
    *used += (count * efl_int64(sizeof(T)) + 63) / 64 * 64;
    return at;
}

// Lays a direction's tables out from `used` on; without memory yet, only counts.
void place_tables(Direction* d, efl_int64* used, char* base) {
    const SparseLayout& l = d->layout;
    d->cursors = take<Cursor>(used, base, l.rows * l.blocks * l.kinds);
    for (efl_uint32** table : {&d->offset, &d->phase, &d->place}) *table = take<efl_uint32>(used, base, l.taps);
    for (Tap** table : {&d->next, &d->taps}) *table = take<Tap>(used, base, l.taps);
    d->sorted = take<Tap>(used, base, l.part * 2 * l.list);
    d->keys = take<efl_uint32>(used, base, l.part);
}

// Runs are sought by phase of the row, then by cell.
void find_places(Direction* d) {
    const efl_int64 taps = d->layout.taps;
    for (efl_int64 t = 0; t < taps; ++t)
        d->offset[t] = efl_uint32(d->layout.offset(t)), d->phase[t] = efl_uint32(d->layout.row_phase(t)),
        d->taps[t] = Tap(t);
    const bool whole = d->layout.whole, turned = d->layout.transposed;
    std::sort(d->taps, d->taps + taps, [=](Tap a, Tap b) {
        if (whole) return turned ? a > b : a < b;
        return d->phase[a] != d->phase[b] ? d->phase[a] < d->phase[b] : d->offset[a] < d->offset[b];
    });
    for (efl_int64 i = 0; i < taps; ++i) {
        const Tap tap = d->taps[i], after = i + 1 < taps ? d->taps[i + 1] : NO_TAP;
        const bool joins = !whole && after != NO_TAP && d->phase[after] == d->phase[tap] &&
                           d->offset[after] == d->offset[tap] + 1;
        d->place[tap] = efl_uint32(i), d->next[tap] = joins ? after : NO_TAP;
    }
}

// found(first tap's place in d.taps, length) for each run of the `count` ascending taps.
template <class Found>
void each_run(const Direction& d, const Tap* taps, efl_int64 count, const Found& found) {
    for (efl_int64 i = 0; i < count; ++i) {  // insertion, from the end that is likely to be in order
        const Tap tap = taps[d.layout.transposed ? count - 1 - i : i];
        efl_int64 at = i;
        for (; at > 0 && d.place[d.taps[at - 1]] > d.place[tap]; --at) d.taps[at] = d.taps[at - 1];
        d.taps[at] = tap;
    }
    for (efl_int64 i = 0; i < count;) {
        efl_int64 length = 1;
        while (length < 3 && i + length < count && d.next[d.taps[i + length - 1]] == d.taps[i + length]) ++length;
        found(i, length);
        i += length;
    }
}

// visit(out, in, taps, count) for each pair of channels that has weights, by eight bytes of the mask at a time.
template <class Visit>
void each_pair(const efl_uint8* mask, const SparseLayout& l, Tap* taps, const Visit& visit) {
    const efl_int64 outs = l.conv.out_channels, ins = l.conv.in_channels, row = ins * l.taps;
    for (efl_int64 o = 0; o < outs; ++o, mask += row) {
        efl_int64 in = 0, end = l.taps, count = 0;
        const auto meet = [&](efl_int64 weight) {
            if (weight >= end) {
                if (count) visit(o, in, taps, count);
                in = weight / l.taps, end = (in + 1) * l.taps, count = 0;
            }
            taps[count++] = Tap(weight - end + l.taps);
        };
        efl_int64 at = 0;
        for (; at + 8 <= row; at += 8) {
            uint64_t bytes;
            std::memcpy(&bytes, mask + at, 8);
            if (bytes == 0) continue;
            for (efl_int64 i = 0; i < 8; ++i)
                if (mask[at + i]) meet(at + i);
        }
        for (; at < row; ++at)
            if (mask[at]) meet(at);
        if (count) visit(o, in, taps, count);
    }
}

struct Place {
    efl_int64 row, block, channel;  // channel within the block
};

Place place_of(const SparseLayout& l, efl_int64 out, efl_int64 in, efl_uint32 phase) {
    const efl_int64 channel = l.transposed ? out : in, block = channel / l.block;
    return {(l.transposed ? in : out) * l.row_phases() + phase, block, channel - block * l.block};
}

void count_runs(const Direction& d, efl_int64 out, efl_int64 in, const Tap* taps, efl_int64 count) {
    each_run(d, taps, count, [&](efl_int64 first, efl_int64 length) {
        const Tap tap = d.taps[first];
        const Place at = place_of(d.layout, out, in, d.phase[tap]);
        const efl_int64 part = at.row / d.layout.part;
        Tap* const list = d.lists(part, at.block) + (at.row - part * d.layout.part) * 2 * d.layout.list;
        ++list[1 + d.kind(tap, length)];
    });
}

efl_int64 weights_of(const SparseLayout& l, const Tap* list) {
    efl_int64 weights = 0;
    for (efl_int64 kind = 0; kind < l.kinds; ++kind) weights += list[1 + kind] * l.run_length(kind);
    return weights;
}

// Most weights first, then by row; the lists that have any.
efl_uint32 sort_cell(const Direction& d, efl_int64 part, efl_int64 block) {
    const SparseLayout& l = d.layout;
    const efl_int64 rows = l.part_rows(part), size = 2 * l.list;
    Tap* const lists = d.lists(part, block);
    efl_uint32 filled = 0;
    for (efl_int64 row = 0; row < rows; ++row) {
        lists[row * size] = Tap(row);
        const efl_int64 weights = weights_of(l, lists + row * size);
        filled += weights > 0;
        d.keys[row] = efl_uint32(SPARSE_OFFSETS - weights) << 16 | efl_uint32(row);
    }
    std::sort(d.keys, d.keys + rows);
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
            d.cell(part, block) = {at.slot, at.run, filled};
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
void write_runs(const Direction& d, efl_int64 out, efl_int64 in, const Tap* taps, efl_int64 count,
                const Placed& placed) {
    Tap* const runs = d.runs();
    each_run(d, taps, count, [&](efl_int64 first, efl_int64 length) {
        const Tap tap = d.taps[first];
        const Place at = place_of(d.layout, out, in, d.phase[tap]);
        Cursor& cursor = d.cursors_of(at.row, at.block)[d.kind(tap, length)];
        runs[cursor.run++] = Tap(at.channel * d.layout.plane + d.offset[tap]);
        for (efl_int64 i = 0; i < length; ++i) placed(d.taps[first + i], cursor.slot++);
    });
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
    }
    const SparseLayout& l = forward.layout;
    each_pair(mask, l, taps, [&](efl_int64 out, efl_int64 in, const Tap* met, efl_int64 count) {
        count_runs(forward, out, in, met, count);
        count_runs(transposed, out, in, met, count);
    });
    begin_runs(forward);
    begin_runs(transposed);
    each_pair(mask, l, taps, [&](efl_int64 out, efl_int64 in, const Tap* met, efl_int64 count) {
        const efl_uint32 first = efl_uint32((out * l.channels + in) * l.taps);
        write_runs(forward, out, in, met, count, [&](Tap tap, efl_uint32 slot) {
            forward.order[slot] = first + tap;
            slots[tap] = slot;
        });
        write_runs(transposed, out, in, met, count,
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
        efl_int64 used = 0;
        place_tables(&down, &used, base);
        place_tables(&up, &used, base);
        taps = take<Tap>(&used, base, forward.taps);
        slots = take<efl_uint32>(&used, base, forward.taps);
        return used;
    };
    char* const base = static_cast<char*>(scratch(place_all(nullptr)));
    if (!base) return EFL_NO_MEMORY;
    place_all(base);
    build(mask, down, up, taps, slots);
    return EFL_OK;
}

}  // namespace efl
