// The header of a masked convolution's structure, and the check that a structure can be followed.
#include <algorithm>
#include <cstring>

#include "check.h"
#include "sparse_convolution.h"

namespace efl {

void sparse_header(const SparseLayout& l, efl_uint32* to) {
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
    sparse_header(l, header);
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

}  // namespace efl
