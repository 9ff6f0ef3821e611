// The instructions of PTX that nvcc and NVRTC make of csrc/cuda, as C++ that the emulation runs: what ptx.py writes
// calls these. An instruction that is not here does not compile. Source: PTX ISA 9.0, by the instructions' names.
//
// Addresses are the host's, but for those of shared memory, which begin at 0. Each load and store must be aligned and
// lie in the kernel's shared memory, in its local memory or in a block of the device's; else the launch fails.
#pragma once
#include <cfenv>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <type_traits>

#include "emulate.h"

namespace ptx {

using pred = bool;
using u8 = uint8_t;
using u16 = uint16_t;
using u32 = uint32_t;
using u64 = uint64_t;
using b8 = u8;
using b16 = u16;
using b32 = u32;
using b64 = u64;
using s8 = int8_t;
using s16 = int16_t;
using s32 = int32_t;
using s64 = int64_t;
using f32 = float;
using f64 = double;
struct tf32 {};

#define PTX static inline __attribute__((always_inline))

// ---- operands --------------------------------------------------------------------------------------------------------

// What an instruction of this type reads in an operand: its bits, or of a wider one the low ones.
template <class T, class From>
PTX T as(From from) {
    if constexpr (std::is_same_v<T, From>) {
        return from;
    } else if constexpr (sizeof(T) == sizeof(From)) {
        T to;
        std::memcpy(&to, &from, sizeof to);
        return to;
    } else {
        static_assert(std::is_integral_v<T> && std::is_integral_v<From>);
        return T(from);
    }
}

// Into a register as wide as the value or wider: a signed value is extended by its sign, others by zeros.
template <class Register, class T>
PTX void put(Register& to, T value) {
    static_assert(sizeof(Register) >= sizeof(T));
    to = as<Register>(value);
}

PTX f32 float_of(u32 bits) { return as<f32>(bits); }
PTX f64 double_of(u64 bits) { return as<f64>(bits); }

template <class T>
using Unsigned = std::make_unsigned_t<T>;
template <class T>
constexpr unsigned BITS = 8 * sizeof(T);
template <class T>
using Wide = std::conditional_t<sizeof(T) == 2, std::conditional_t<std::is_signed_v<T>, s32, u32>,
                                std::conditional_t<std::is_signed_v<T>, s64, u64>>;

// ---- memory ----------------------------------------------------------------------------------------------------------

alignas(16) static __attribute__((section("efl_shared"))) char shared_memory[48 << 10];
static unsigned shared_size;  // of the kernel that runs

enum Space { GENERIC, GLOBAL, SHARED, LOCAL };

// Where it is on the host; null, and the launch fails, if the kernel must not go there.
// Not inlined: nobody would wait for g++ to do so a hundred thousand times.
template <Space SPACE, unsigned SIZE>
static __attribute__((noinline)) char* place(u64 address, const char* what) {
    char* const found = SPACE == SHARED ? shared_memory + address : reinterpret_cast<char*>(address);
    const bool is_ours = SPACE == SHARED    ? address + SIZE <= shared_size
                         : SPACE == LOCAL   ? emulate::is_local(found)
                         : SPACE == GENERIC ? emulate::is_local(found) || emulate::is_shared(found) ||
                                                  emulate::is_held(found, SIZE)
                                            : emulate::is_held(found, SIZE);
    if (is_ours && address % SIZE == 0) return found;
    emulate::object(std::string(what) + " of " + std::to_string(SIZE) + " bytes at " + std::to_string(address) +
                    (is_ours ? ", which is not aligned" : ", which is not the kernel's"));
    return nullptr;
}

#ifdef EFL_WATCH
}  // namespace ptx
extern "C" {
#define SEEN(size) void __tsan_read##size(void* at); void __tsan_write##size(void* at);
SEEN(1) SEEN(2) SEEN(4) SEEN(8) SEEN(16)
#undef SEEN
}
namespace ptx {
#define TELL(kind, size, at) \
    (size == 1 ? __tsan_##kind##1(at) : size == 2 ? __tsan_##kind##2(at) : size == 4 ? __tsan_##kind##4(at) \
     : size == 8 ? __tsan_##kind##8(at) : __tsan_##kind##16(at))
#else
#define TELL(kind, size, at) (void)0
#endif

template <class T, unsigned N>
struct Vector {
    T of[N];
};

template <Space SPACE, class T, unsigned N = 1>
PTX Vector<T, N> load(u64 address) {
    Vector<T, N> found{};
    if (char* const at = place<SPACE, N * sizeof(T)>(address, "a load")) {
        TELL(read, sizeof found, at);
        std::memcpy(&found, at, sizeof found);
    }
    return found;
}

template <Space SPACE, class T, unsigned N>
PTX void store(u64 address, const Vector<T, N>& value) {
    if (char* const at = place<SPACE, N * sizeof(T)>(address, "a store")) {
        TELL(write, sizeof value, at);
        std::memcpy(at, &value, sizeof value);
    }
}

// Arguments are where they were handed over, by name or by address.
template <class T, class Address>
PTX T load_param(Address from) {
    T found;
    std::memcpy(&found, as<const char*>(from), sizeof found);
    return found;
}

template <class T, class Address, class A>
PTX void store_param(Address to, A a) {
    const T value = as<T>(a);
    std::memcpy(as<char*>(to), &value, sizeof value);
}

#undef TELL

// ---- integers and floats ---------------------------------------------------------------------------------------------

template <class T, class A>
PTX T op_mov(A a) { return as<T>(a); }

template <class T, class A, class B>
PTX T op_add(A a, B b) {
    if constexpr (std::is_integral_v<T>) return T(Unsigned<T>(as<T>(a)) + Unsigned<T>(as<T>(b)));
    else return as<T>(a) + as<T>(b);
}
template <class T, class A, class B>
PTX T op_sub(A a, B b) {
    if constexpr (std::is_integral_v<T>) return T(Unsigned<T>(as<T>(a)) - Unsigned<T>(as<T>(b)));
    else return as<T>(a) - as<T>(b);
}
template <class T, class A, class B>
PTX T op_mul(A a, B b) { return as<T>(a) * as<T>(b); }
template <class T, class A, class B>
PTX T op_add_rn(A a, B b) { return as<T>(a) + as<T>(b); }
template <class T, class A, class B>
PTX T op_sub_rn(A a, B b) { return as<T>(a) - as<T>(b); }
template <class T, class A, class B>
PTX T op_mul_rn(A a, B b) { return as<T>(a) * as<T>(b); }

template <class T, class A, class B>
PTX T op_mul_lo(A a, B b) { return T(Unsigned<Wide<T>>(as<T>(a)) * Unsigned<Wide<T>>(as<T>(b))); }
template <class T, class A, class B>
PTX T op_mul_hi(A a, B b) {
    static_assert(sizeof(T) == 4);
    return T(Wide<T>(as<T>(a)) * as<T>(b) >> 32);
}
template <class T, class A, class B>
PTX Wide<T> op_mul_wide(A a, B b) { return Wide<T>(as<T>(a)) * as<T>(b); }
template <class T, class A, class B, class C>
PTX T op_mad_lo(A a, B b, C c) { return op_add<T>(op_mul_lo<T>(a, b), c); }
template <class T, class A, class B, class C>
PTX Wide<T> op_mad_wide(A a, B b, C c) { return op_add<Wide<T>>(op_mul_wide<T>(a, b), c); }

template <class T, class A, class B>
PTX T op_div(A a, B b) {
    const T x = as<T>(a), y = as<T>(b);
    if (y == 0) return T(-1);  // unspecified
    return std::is_signed_v<T> && y == T(-1) ? op_sub<T>(T(0), x) : T(x / y);
}
template <class T, class A, class B>
PTX T op_rem(A a, B b) {
    const T x = as<T>(a), y = as<T>(b);
    if (y == 0) return T(-1);
    return std::is_signed_v<T> && y == T(-1) ? T(0) : T(x % y);
}

template <class T, class A, class B>
PTX T op_min(A a, B b) {
    if constexpr (std::is_integral_v<T>) return as<T>(b) < as<T>(a) ? as<T>(b) : as<T>(a);
    else return T(std::fmin(as<T>(a), as<T>(b)));
}
template <class T, class A, class B>
PTX T op_max(A a, B b) {
    if constexpr (std::is_integral_v<T>) return as<T>(a) < as<T>(b) ? as<T>(b) : as<T>(a);
    else return T(std::fmax(as<T>(a), as<T>(b)));
}
template <class T, class A>
PTX T op_neg(A a) {
    if constexpr (std::is_integral_v<T>) return op_sub<T>(T(0), a);
    else return -as<T>(a);
}
template <class T, class A>
PTX T op_abs(A a) { return std::abs(as<T>(a)); }
template <class T, class A, class B>
PTX T op_copysign(A sign, B of) { return std::copysign(as<T>(of), as<T>(sign)); }

// ---- bits ------------------------------------------------------------------------------------------------------------

template <class T, class A, class B>
PTX T op_and(A a, B b) { return as<T>(a) & as<T>(b); }
template <class T, class A, class B>
PTX T op_or(A a, B b) { return as<T>(a) | as<T>(b); }
template <class T, class A, class B>
PTX T op_xor(A a, B b) { return as<T>(a) ^ as<T>(b); }
template <class T, class A>
PTX T op_not(A a) {
    if constexpr (std::is_same_v<T, pred>) return !a;
    else return ~as<T>(a);
}
template <class T, class A, class B>
PTX T op_shl(A a, B by) { return as<u32>(by) < BITS<T> ? T(as<T>(a) << as<u32>(by)) : T(0); }
template <class T, class A, class B>
PTX T op_shr(A a, B by) {
    const u32 most = BITS<T> - 1, some = as<u32>(by);
    if (!std::is_signed_v<T> && some > most) return T(0);
    return as<T>(a) >> (some < most ? some : most);
}
template <class T, class A>
PTX u32 op_popc(A a) { return u32(__builtin_popcountll(as<T>(a))); }
template <class T, class A, class B, class C, class D>
PTX T op_bfi(A a, B b, C at, D length) {
    const u32 first = as<u32>(at) & 0xff, count = as<u32>(length) & 0xff;
    const T ones = count < BITS<T> ? op_shl<T>(T(1), count) - 1 : T(-1);
    return (as<T>(b) & ~op_shl<T>(ones, first)) | op_shl<T>(T(as<T>(a) & ones), first);
}
template <class T, class A, class B, class C>
PTX T op_bfe(A a, B at, C length) {
    static_assert(!std::is_signed_v<T>);
    const u32 count = as<u32>(length) & 0xff;
    const T bits = op_shr<T>(a, as<u32>(at) & 0xff);
    return count < BITS<T> ? bits & (op_shl<T>(T(1), count) - 1) : bits;
}
template <class T, class A, class B, class C>
PTX T op_prmt(A a, B b, C select) {
    const u64 bytes = u64(as<T>(b)) << 32 | as<T>(a);
    T made = 0;
    for (unsigned i = 0; i < 4; ++i) {
        const u32 which = as<u32>(select) >> 4 * i;
        const u8 byte = u8(bytes >> 8 * (which & 7));
        made |= T(which & 8 ? (byte & 0x80 ? 0xff : 0) : byte) << 8 * i;
    }
    return made;
}

// ---- comparisons -----------------------------------------------------------------------------------------------------

template <class T>
PTX bool is_unordered(T a, T b) {
    if constexpr (std::is_integral_v<T>) return false;
    else return std::isnan(a) || std::isnan(b);
}
#define PTX_COMPARE(name, is)                                             \
    template <class T, class A, class B>                                  \
    PTX bool op_setp_##name(A a, B b) {                                   \
        return !is_unordered(as<T>(a), as<T>(b)) && as<T>(a) is as<T>(b); \
    }                                                                     \
    template <class T, class A, class B>                                  \
    PTX bool op_setp_##name##u(A a, B b) {                                \
        return is_unordered(as<T>(a), as<T>(b)) || as<T>(a) is as<T>(b);  \
    }
PTX_COMPARE(eq, ==)
PTX_COMPARE(ne, !=)
PTX_COMPARE(lt, <)
PTX_COMPARE(le, <=)
PTX_COMPARE(gt, >)
PTX_COMPARE(ge, >=)
template <class T, class A, class B>
PTX bool op_setp_nan(A a, B b) { return is_unordered(as<T>(a), as<T>(b)); }
template <class T, class A, class B>
PTX bool op_setp_num(A a, B b) { return !is_unordered(as<T>(a), as<T>(b)); }
template <class T, class A, class B>
PTX T op_selp(A a, B b, bool is_first) { return is_first ? as<T>(a) : as<T>(b); }

// ---- floats ----------------------------------------------------------------------------------------------------------

// volatile, so that the compiler computes nothing in its own mode
template <class T, class Operation>
PTX T rounded(int mode, Operation operation) {
    const int before = std::fegetround();
    std::fesetround(mode);
    volatile T made = operation();
    std::fesetround(before);
    return made;
}
template <class T, class A, class B>
PTX T op_add_rz(A a, B b) {
    volatile T x = as<T>(a), y = as<T>(b);
    return rounded<T>(FE_TOWARDZERO, [&] { return x + y; });
}
template <class T, class A, class B, class C>
PTX T op_fma_rn(A a, B b, C c) {
    if constexpr (sizeof(T) == 4) return fmaf(as<T>(a), as<T>(b), as<T>(c));
    else return std::fma(as<T>(a), as<T>(b), as<T>(c));
}
template <class T, class A, class B, class C>
PTX T op_fma_rm(A a, B b, C c) {
    volatile T x = as<T>(a), y = as<T>(b), z = as<T>(c);
    return rounded<T>(FE_DOWNWARD, [&] { return std::fma(T(x), T(y), T(z)); });
}
template <class T, class A, class B>
PTX T op_div_rn(A a, B b) { return as<T>(a) / as<T>(b); }
template <class T, class A>
PTX T op_sqrt_rn(A a) { return std::sqrt(as<T>(a)); }
template <class T, class A>
PTX T op_rcp_rn(A a) { return T(1) / as<T>(a); }

template <class T>
PTX T flushed(T value) {
    return std::fpclassify(value) == FP_SUBNORMAL ? std::copysign(T(0), value) : value;
}
// Of these a device's last bits are its own.
template <class T, class A>
PTX T op_ex2_approx(A a) { return std::exp2(as<T>(a)); }
template <class T, class A>
PTX T op_ex2_approx_ftz(A a) { return flushed(std::exp2(flushed(as<T>(a)))); }
template <class T, class A>
PTX T op_rcp_approx_ftz(A a) {
    const T made = flushed(T(1) / flushed(as<T>(a)));
    if constexpr (sizeof(T) == 4) return made;
    else return as<T>(as<u64>(made) & ~0xffffffffull);  // the high half alone
}

// ---- conversions -----------------------------------------------------------------------------------------------------

template <class To, class From, class A>
PTX To op_cvt(A a) {
    static_assert(std::is_integral_v<To> ? std::is_integral_v<From> : sizeof(To) >= sizeof(From));
    return To(as<From>(a));
}
template <class To, class From, class A>
PTX To op_cvt_rn(A a) {
    static_assert(std::is_floating_point_v<To>);
    return To(as<From>(a));
}
template <class To, class From, class A>
PTX To op_cvt_sat(A a) {
    static_assert(std::is_same_v<To, From>);
    const To value = as<From>(a);
    return value > 0 ? value < 1 ? value : To(1) : To(0);  // 0 for NaN
}
template <class To, class From>
PTX To whole(From value) {  // which is whole
    if constexpr (std::is_floating_point_v<To>) {
        return To(value);
    } else {
        if (std::isnan(value)) return sizeof(To) == 4 ? To(0) : std::numeric_limits<To>::min();
        if (value <= From(std::numeric_limits<To>::min())) return std::numeric_limits<To>::min();
        if (value >= From(std::numeric_limits<To>::max())) return std::numeric_limits<To>::max();
        return To(value);
    }
}
template <class To, class From, class A>
PTX To op_cvt_rzi(A a) { return whole<To>(std::trunc(as<From>(a))); }
template <class To, class From, class A>
PTX To op_cvt_rmi(A a) { return whole<To>(std::floor(as<From>(a))); }
template <class To, class From, class A>
PTX To op_cvt_rni(A a) { return whole<To>(std::nearbyint(as<From>(a))); }
template <class To, class From, class A>
PTX std::enable_if_t<std::is_same_v<To, tf32>, u32> op_cvt_rna(A a) {
    return as<u32>(emulate::rounded_to_tf32(as<From>(a)));
}

template <class T, class A>
PTX T op_cvta_to_global(A a) { return as<T>(a); }
template <class T, class A>
PTX T op_cvta_local(A a) { return as<T>(a); }
template <class T, class A>
PTX T op_cvta_shared(A a) { return T(reinterpret_cast<uintptr_t>(shared_memory)) + as<T>(a); }

// ---- threads ---------------------------------------------------------------------------------------------------------

PTX void op_bar_sync(int) { emulate::wait(); }

// The fragments of a warp's mma.m16n8k8: accumulators in registers 0 and 1 above, 2 and 3 below.
template <class A>
PTX Vector<f32, 4> multiply(const A (&left)[4], const A (&right)[2], const f32 (&sum)[4]) {
    float above[2] = {sum[0], sum[1]}, below[2] = {sum[2], sum[3]};
    const float x[4] = {as<f32>(left[0]), as<f32>(left[1]), as<f32>(left[2]), as<f32>(left[3])};
    const float y[2] = {as<f32>(right[0]), as<f32>(right[1])};
    emulate::multiply_m16n8k8(above, below, x, y);
    return {{above[0], above[1], below[0], below[1]}};
}

}  // namespace ptx
