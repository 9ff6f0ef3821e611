// A libFuzzer harness of the C ABI: indices, gather and scatter, codes of masks, and the geometry of convolutions and pools. The first
// byte chooses what is called, the rest are its arguments; every array is allocated at exactly the size that edgefl.h
// asks for, so that AddressSanitizer sees a byte too many. replay.cc runs a corpus through it without libFuzzer.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "core/check.h"
#include "edgefl.h"

namespace {

using std::size_t;
using Wide = __int128;

#define EXPECT(condition)                                                       \
    do {                                                                        \
        if (!(condition)) {                                                     \
            std::fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
            std::abort();                                                       \
        }                                                                       \
    } while (false)

constexpr efl_int64 MOST_VALUES = 1 << 16;     // of an array that is allocated
constexpr efl_int64 MOST_SCRATCH = 64 << 20;   // bytes of packing that a call may take here
constexpr efl_int64 MOST_PRODUCTS = 1 << 22;   // multiply-accumulates of a call, for the sake of speed
constexpr float SENTINEL = -7.25F;

// Bytes into arguments; zeros when they are used up.
class Input {
public:
    Input(const uint8_t* data, size_t size) : data_(data), size_(size) {}

    uint8_t byte() { return at_ < size_ ? data_[at_++] : 0; }

    efl_int64 word() {
        uint64_t value = 0;
        for (int i = 0; i < 8; ++i) value |= uint64_t(byte()) << (8 * i);
        return efl_int64(value);
    }

    // Small, as kernels are called.
    efl_int64 extent(efl_int64 below) { return byte() % below; }

    // Mostly small; above 247 a power of two or what is next to it, or a negative number.
    efl_int64 any(efl_int64 below) {
        const uint8_t first = byte();
        if (first < 248) return first % below;
        const efl_int64 power = efl_int64(uint64_t(1) << (byte() % 63));
        return first < 251 ? power : first < 253 ? power - 1 : first < 255 ? -power : power + 1;
    }

    // Ids as they come, or rising ones, which are more often valid.
    template <class Id>
    std::vector<Id> ids(efl_int64 most) {
        std::vector<Id> found;
        const uint8_t how = byte();
        const efl_int64 count = efl_int64(byte()) % (most + 2);
        Id last = 0;
        for (efl_int64 i = 0; i < count; ++i) {
            const uint8_t next = byte();
            last = how % 4 == 0 ? Id(uint32_t(word())) : Id(last + Id(i == 0 ? next % 3 : 1 + next % 2));
            found.push_back(last);
        }
        return found;
    }

private:
    const uint8_t* data_;
    size_t size_, at_ = 0;
};

// An array of its own size on the heap. What is written may be compared with what was there.
class Floats {
public:
    explicit Floats(efl_int64 count) : memory_(size_t(count), SENTINEL) { memory_.shrink_to_fit(); }

    float* data() { return memory_.empty() ? &nothing_ : memory_.data(); }
    float& operator[](efl_int64 i) { return memory_[size_t(i)]; }
    efl_int64 size() const { return efl_int64(memory_.size()); }
    void number() {
        for (size_t i = 0; i < memory_.size(); ++i) memory_[i] = float(i % 251) * 0.125F;
    }
    bool untouched() const {
        for (float value : memory_)
            if (value != SENTINEL) return false;
        return nothing_ == SENTINEL;
    }

private:
    std::vector<float> memory_;
    float nothing_ = SENTINEL;  // where an empty array would be
};

// The ids in an array of exactly their size, or all of them.
class Index {
public:
    Index(Input& in, efl_int64 extent) : all_(in.byte() % 3 == 0), ids_(in.ids<efl_int32>(extent)), extent_(extent) {
        ids_.shrink_to_fit();
    }

    efl_index get() const {
        static const efl_int32 nothing = 0;
        return {all_ ? nullptr : ids_.empty() ? &nothing : ids_.data(), efl_int64(ids_.size())};
    }
    efl_int64 count() const { return all_ ? extent_ : efl_int64(ids_.size()); }
    efl_int64 at(efl_int64 i) const { return all_ ? i : ids_[size_t(i)]; }
    bool is_valid() const {
        efl_int64 previous = -1;
        for (efl_int64 i = 0; i < count(); ++i) {
            if (at(i) <= previous || at(i) >= extent_) return false;
            previous = at(i);
        }
        return true;
    }

private:
    bool all_;
    std::vector<efl_int32> ids_;
    efl_int64 extent_;
};

void axes(Input& in, bool puts) {
    const efl_int64 rows = in.extent(20), cols = in.extent(20), inner = in.extent(6);
    const Index down(in, rows), across(in, cols);
    Floats whole(rows * cols * inner), block(down.count() * across.count() * inner);
    (puts ? block : whole).number();
    const efl_status status =
        puts ? efl_put_axes_32(whole.data(), rows, cols, inner, down.get(), across.get(), block.data())
             : efl_take_axes_32(whole.data(), rows, cols, inner, down.get(), across.get(), block.data());
    const bool is_valid = down.is_valid() && across.is_valid();
    EXPECT((status == EFL_OK) == is_valid);
    if (!is_valid) {
        EXPECT((puts ? whole : block).untouched());
        return;
    }
    std::vector<bool> written(size_t(whole.size()));
    for (efl_int64 r = 0; r < down.count(); ++r)
        for (efl_int64 c = 0; c < across.count(); ++c)
            for (efl_int64 i = 0; i < inner; ++i) {
                const efl_int64 at = (down.at(r) * cols + across.at(c)) * inner + i;
                EXPECT(whole[at] == block[(r * across.count() + c) * inner + i]);
                written[size_t(at)] = true;
            }
    for (efl_int64 i = 0; puts && i < whole.size(); ++i) EXPECT(written[size_t(i)] || whole[i] == SENTINEL);
}

void flat(Input& in, bool puts) {
    const efl_int64 size = in.extent(200);
    std::vector<efl_uint32> ids = in.ids<efl_uint32>(size);
    ids.shrink_to_fit();
    const efl_uint32 nothing = 0;
    const efl_uint32* listed = ids.empty() ? &nothing : ids.data();
    Floats whole(size), values(efl_int64(ids.size()));
    (puts ? values : whole).number();
    const efl_status status = puts ? efl_put_flat_32(whole.data(), size, listed, values.size(), values.data())
                                   : efl_take_flat_32(whole.data(), size, listed, values.size(), values.data());
    bool is_valid = true;
    for (size_t i = 0; i < ids.size(); ++i) is_valid &= efl_int64(ids[i]) < size && (i == 0 || ids[i] > ids[i - 1]);
    EXPECT((status == EFL_OK) == is_valid);
    for (size_t i = 0; is_valid && i < ids.size(); ++i) EXPECT(whole[ids[i]] == values[efl_int64(i)]);
    if (!is_valid) EXPECT((puts ? whole : values).untouched());
}

void rows(Input& in) {
    const efl_int64 count = in.extent(20), width = in.extent(40);
    std::vector<efl_int32> ids = in.ids<efl_int32>(30);
    const efl_int32 nothing = 0;
    Floats source(count * width), out(efl_int64(ids.size()) * width);
    source.number();
    const efl_status status = efl_gather_rows_f32(source.data(), count, width, ids.empty() ? &nothing : ids.data(),
                                                  efl_int64(ids.size()), 1.0F, 0.0F, out.data());
    bool is_valid = true;
    for (efl_int32 id : ids) is_valid &= id >= 0 && id < count;
    EXPECT((status == EFL_OK) == is_valid);
    for (size_t b = 0; is_valid && b < ids.size(); ++b)
        for (efl_int64 i = 0; i < width; ++i) EXPECT(out[efl_int64(b) * width + i] == source[ids[b] * width + i]);
}

void channels(Input& in) {
    const efl_int64 batch = in.extent(5), count = in.extent(20), inner = in.extent(20);
    const Index chosen(in, count);
    Floats x(batch * count * inner), y(batch * chosen.count() * inner);
    x.number();
    const efl_status status = efl_take_channels_f32(x.data(), batch, count, inner, chosen.get(), y.data());
    EXPECT((status == EFL_OK) == chosen.is_valid());
    for (efl_int64 b = 0; status == EFL_OK && b < batch; ++b)
        for (efl_int64 j = 0; j < chosen.count(); ++j)
            for (efl_int64 i = 0; i < inner; ++i)
                EXPECT(y[(b * chosen.count() + j) * inner + i] == x[(b * count + chosen.at(j)) * inner + i]);
}

// Extents without any bound, on the checks alone: what passes them fits in 63 bits however it is multiplied.
void bounds(Input& in) {
    efl_conv2d c{};
    efl_int64* const fields[] = {&c.batch,    &c.in_channels, &c.height, &c.width, &c.out_channels, &c.kernel_h, &c.kernel_w,
                                 &c.stride_h, &c.stride_w,    &c.pad_h,  &c.pad_w, &c.dil_h,        &c.dil_w,    &c.groups};
    const bool is_raw = in.byte() % 2;
    for (efl_int64* field : fields) *field = is_raw ? in.word() : in.any(40);
    if (efl::geometry(c) == EFL_OK) {
        const Wide out_h = (Wide(c.height) + 2 * Wide(c.pad_h) - Wide(c.dil_h) * (c.kernel_h - 1) - 1) / c.stride_h + 1;
        const Wide out_w = (Wide(c.width) + 2 * Wide(c.pad_w) - Wide(c.dil_w) * (c.kernel_w - 1) - 1) / c.stride_w + 1;
        EXPECT(out_h >= 1 && out_w >= 1);
        const Wide product = Wide(c.batch ? c.batch : 1) * (c.in_channels ? c.in_channels : 1) *
                             (c.out_channels ? c.out_channels : 1) * out_h * out_w * c.kernel_h * c.kernel_w;
        EXPECT(product <= Wide(efl::MOST));
        EXPECT(Wide(c.height) + 2 * Wide(c.pad_h) <= Wide(efl::MOST));
    }
    const efl_pool2d p{c.batch, c.height, c.width, c.kernel_h, c.kernel_w, c.stride_h, c.stride_w, c.pad_h, c.pad_w, 0,
                       0};
    if (efl::geometry(p) == EFL_OK) {
        EXPECT((Wide(p.height) + 2 * Wide(p.pad_h) - p.kernel_h) / p.stride_h + 1 >= 1);
        (void)efl::codes_fit(p);
    }
    EXPECT(efl::extents({c.batch, c.height, c.width, c.stride_h}) != EFL_OK ||
           Wide(c.batch ? c.batch : 1) * (c.height ? c.height : 1) * (c.width ? c.width : 1) *
                   (c.stride_h ? c.stride_h : 1) <= Wide(efl::MOST));
}

// Any bytes as a code: what is accepted is the code of the bits that it gives, and of no others.
void mask(Input& in) {
    const efl_int64 n = in.extent(256) * (1 + in.extent(8)), ones = in.any(256);
    const size_t given = in.byte() % 128, count = size_t(n);
    std::vector<efl_uint8> code(given), bits(count), again(16 + (count + 7) / 8 * 4);
    for (size_t i = 0; i < code.size(); ++i) code[i] = in.byte();
    code.shrink_to_fit();
    efl_uint8 nothing = 0;
    efl_uint8* const found = bits.empty() ? &nothing : bits.data();
    const efl_int64 room = efl_int64(code.size());
    efl_int64 size = 0, written = 0;
    const efl_status status = efl_decode_mask(room ? code.data() : &nothing, room, ones, found, n, &size);
    EXPECT((status == EFL_OK) == (ones >= 0 && ones <= n));
    if (status != EFL_OK || size < 0) return;
    EXPECT(size <= room);
    efl_int64 total = 0;
    for (efl_uint8 bit : bits) total += bit;
    EXPECT(total == ones);
    EXPECT(efl_encode_mask(found, n, ones, again.data(), efl_int64(again.size()), &written) == EFL_OK);
    EXPECT(written == size && std::memcmp(again.data() + again.size() - size, code.data(), size_t(size)) == 0);
}

efl_conv2d small_conv(Input& in) {
    efl_conv2d c{};
    c.groups = 1 + in.extent(4);
    c.batch = in.extent(4);
    c.in_channels = c.groups * in.extent(10);
    c.out_channels = c.groups * in.extent(10);
    c.height = in.extent(24);
    c.width = in.extent(24);
    c.kernel_h = 1 + in.extent(7);
    c.kernel_w = 1 + in.extent(7);
    c.stride_h = 1 + in.any(4);
    c.stride_w = 1 + in.any(4);
    c.pad_h = in.any(9);
    c.pad_w = in.any(9);
    c.dil_h = 1 + in.extent(3);
    c.dil_w = 1 + in.extent(3);
    return c;
}

efl_int64 slid(efl_int64 size, efl_int64 kernel, efl_int64 stride, efl_int64 pad, efl_int64 dilation) {
    return (size + 2 * pad - dilation * (kernel - 1) - 1) / stride + 1;
}

// Whether a call takes little enough to be made. `call` is made once, to count.
template <class Call>
bool is_small(Call call) {
    efl_count_scratch(1);
    call();
    return efl_count_scratch(0) <= MOST_SCRATCH;
}

void convolve(Input& in) {
    const uint8_t which = in.byte() % 3;
    const efl_conv2d c = small_conv(in);
    if (efl::geometry(c) != EFL_OK) {
        float one = SENTINEL;
        EXPECT(efl_conv2d_forward_f32(&c, &one, &one, nullptr, &one) != EFL_OK);
        EXPECT(one == SENTINEL);
        return;
    }
    const efl_int64 out_h = slid(c.height, c.kernel_h, c.stride_h, c.pad_h, c.dil_h);
    const efl_int64 out_w = slid(c.width, c.kernel_w, c.stride_w, c.pad_w, c.dil_w);
    const efl_int64 taps = c.kernel_h * c.kernel_w, inside = c.in_channels / c.groups;
    if (out_h > 4096 || out_w > 4096) return;
    const efl_int64 x_size = c.batch * c.in_channels * c.height * c.width;
    const efl_int64 y_size = c.batch * c.out_channels * out_h * out_w, w_size = c.out_channels * inside * taps;
    if (x_size > MOST_VALUES || y_size > MOST_VALUES || y_size * inside * taps > MOST_PRODUCTS) return;
    const Index outs(in, c.out_channels), ins(in, c.in_channels);
    Floats x(x_size), y(y_size), weight(w_size), bias(c.out_channels);
    weight.number();
    bias.number();
    efl_status status = EFL_OK;
    if (which == 0) {
        x.number();
        const auto call = [&] {
            status = efl_conv2d_forward_f32(&c, x.data(), weight.data(), in.byte() % 2 ? bias.data() : nullptr, y.data());
        };
        if (is_small(call)) {
            call();
            EXPECT(status == EFL_OK);
        }
    } else if (which == 1) {
        y.number();
        const auto call = [&] {
            status = efl_conv2d_grad_input_f32(&c, y.data(), weight.data(), outs.get(), ins.get(), x.data());
        };
        if (is_small(call)) call();
        EXPECT(outs.is_valid() && ins.is_valid() ? status == EFL_OK || status == EFL_NO_MEMORY : x.untouched());
    } else {
        x.number();
        y.number();
        const bool grouped = c.groups > 1;
        Floats dw(outs.count() * (grouped ? inside : ins.count()) * taps);
        const efl_index from = grouped ? efl_index{nullptr, 0} : ins.get();
        const auto call = [&] {
            status = efl_conv2d_grad_weight_f32(&c, x.data(), c.in_channels, y.data(), outs.get(), from, dw.data());
        };
        if (is_small(call)) call();
        const bool is_valid = outs.is_valid() && (grouped || ins.is_valid());
        EXPECT(is_valid ? status == EFL_OK || status == EFL_NO_MEMORY : dw.untouched());
    }
}

void pool(Input& in) {
    efl_pool2d p{in.extent(6),  in.extent(24), in.extent(24), 1 + in.extent(8), 1 + in.extent(8),
                 1 + in.any(5), 1 + in.any(5), in.any(5),     in.any(5),        0, 0};
    const int modes = in.byte();
    p.count_include_pad = modes % 2;
    p.ceil_mode = modes / 2 % 2;
    if (efl::geometry(p) != EFL_OK) return;
    EXPECT(p.height > 0 && p.width > 0);  // every window has a cell that can win
    const efl_int64 out_h = efl::pool_windows(p.height, p.kernel_h, p.stride_h, p.pad_h, p.ceil_mode);
    const efl_int64 out_w = efl::pool_windows(p.width, p.kernel_w, p.stride_w, p.pad_w, p.ceil_mode);
    Floats x(p.planes * p.height * p.width), y(p.planes * out_h * out_w);
    std::vector<efl_uint8> codes(size_t(y.size()) + 1);
    const efl_int64 channels = p.planes > 0 ? p.planes : 1;
    const Index needed(in, channels);
    x.number();
    EXPECT(efl_avgpool_forward_f32(&p, x.data(), y.data()) == EFL_OK);
    EXPECT(efl_maxpool_forward_f32(&p, x.data(), y.data(), codes.data()) == EFL_OK);
    const efl_status max = efl_maxpool_backward_f32(&p, y.data(), codes.data(), channels, needed.get(), x.data());
    const efl_status mean = efl_avgpool_backward_f32(&p, y.data(), channels, needed.get(), x.data());
    EXPECT((max == EFL_OK) == needed.is_valid() && (mean == EFL_OK) == needed.is_valid());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    Input in(data, size);
    switch (in.byte() % 10) {
        case 0: axes(in, false); break;
        case 1: axes(in, true); break;
        case 2: flat(in, false); break;
        case 3: flat(in, true); break;
        case 4: rows(in); break;
        case 5: channels(in); break;
        case 6: bounds(in); break;
        case 7: pool(in); break;
        case 8: convolve(in); break;
        default: mask(in);
    }
    return 0;
}
