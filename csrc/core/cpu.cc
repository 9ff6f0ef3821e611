// Which tiers this CPU and its operating system can run, and the table filled from them.
#include <cstdlib>
#include <cstring>

#include "dispatch.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace efl {
// What each part of a tier's bodies brings: isa/<tier>_<part>.cc.
#define EFL_TIER(tier)                  \
    namespace tier {                    \
    void install_plain(Table&);         \
    void install_linear(Table&);        \
    void install_convolution(Table&);   \
    void install_sparse(Table&);        \
    static void install(Table& table) { \
        install_plain(table);           \
        install_linear(table);          \
        install_convolution(table);     \
        install_sparse(table);          \
    }                                   \
    }
EFL_TIER(scalar)
#if defined(__x86_64__)
EFL_TIER(avx2)
EFL_TIER(avx512)
#elif defined(__aarch64__)
EFL_TIER(neon)
#endif
#undef EFL_TIER

namespace {

bool always() { return true; }

#if defined(__x86_64__)
// The register state that the operating system saves on a context switch (XCR0): without it a CPU feature is unusable.
unsigned saved_state() {
    unsigned a, b, c, d;
    const unsigned osxsave = 1u << 27;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & osxsave)) return 0;
    __asm__ volatile("xgetbv" : "=a"(a), "=d"(d) : "c"(0));
    return a;
}

bool has_bits(unsigned word, unsigned bits) { return (word & bits) == bits; }

bool runs_avx2() {
    unsigned a, b, c, d;
    const unsigned ymm = 0x6, fma = 1u << 12, f16c = 1u << 29, popcnt = 1u << 23, avx2 = 1u << 5, bmi2 = 1u << 8;
    if (!has_bits(saved_state(), ymm)) return false;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !has_bits(c, fma | f16c | popcnt)) return false;
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) && has_bits(b, avx2 | bmi2);
}

bool runs_avx512() {
    unsigned a, b, c, d;
    const unsigned zmm = 0xe6, f = 1u << 16, dq = 1u << 17, bw = 1u << 30, vl = 1u << 31;
    if (!runs_avx2() || !has_bits(saved_state(), zmm)) return false;
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) && has_bits(b, f | dq | bw | vl);
}
#endif

struct Tier {
    const char* name;
    bool (*runs)();
    void (*install)(Table&);
};

const Tier ladder[] = {
    {"scalar", always, scalar::install},
#if defined(__x86_64__)
    {"avx2", runs_avx2, avx2::install},
    {"avx512", runs_avx512, avx512::install},
#elif defined(__aarch64__)
    {"neon", always, neon::install},
#endif
};

Table current;
const Tier* in_use = nullptr;

const Tier* find(const char* name) {
    for (const Tier& tier : ladder)
        if (name && !std::strcmp(tier.name, name)) return &tier;
    return nullptr;
}

void fill(const Tier* highest) {
    for (const Tier& tier : ladder) {
        if (&tier > highest || !tier.runs()) break;
        tier.install(current);
        in_use = &tier;
    }
}

// EDGEFL_ISA is a cap: a tier above this CPU's best, or an unknown name, leaves the best in use. Python refuses such a
// name.
struct AtLoad {
    AtLoad() {
        const Tier* cap = find(std::getenv("EDGEFL_ISA"));
        fill(cap ? cap : ladder + sizeof ladder / sizeof *ladder - 1);
    }
} at_load;

}  // namespace

const Table& table() { return current; }

}  // namespace efl

const char* efl_isa(void) { return efl::in_use->name; }

efl_int32 efl_has_isa(const char* name) {
    const efl::Tier* tier = efl::find(name);
    return tier && tier->runs();
}

efl_status efl_cap_isa(const char* name) {
    if (!efl_has_isa(name)) return EFL_BAD_ISA;
    efl::fill(efl::find(name));
    return EFL_OK;
}
