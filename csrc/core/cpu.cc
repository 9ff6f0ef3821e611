// Which instruction sets this CPU and its operating system can run, and the table filled from them.
#include <cstdlib>
#include <cstring>
#include <iterator>

#include "dispatch.h"

#if defined(__x86_64__)
#include <cpuid.h>
#elif defined(__linux__)
#include <sys/auxv.h>
#endif

namespace efl {
// Declares what the parts of an instruction set's bodies bring, isa/<isa>_<part>.cc, and defines their install().
#define EFL_ISA(isa)                         \
    namespace isa {                          \
    void install_plain(Table&);              \
    void install_linear(Table&);             \
    void install_norm(Table&);               \
    void install_pool(Table&);               \
    void install_convolution(Table&);        \
    void install_sparse(Table&);             \
    void install_sparse_convolution(Table&); \
    void install_int8(Table&);               \
    static void install(Table& table) {      \
        install_plain(table);                \
        install_linear(table);               \
        install_norm(table);                 \
        install_pool(table);                 \
        install_convolution(table);          \
        install_sparse(table);               \
        install_sparse_convolution(table);   \
        install_int8(table);                 \
    }                                        \
    }
EFL_ISA(scalar)
#if defined(__x86_64__)
EFL_ISA(avx2)
EFL_ISA(avx512)
#elif defined(__aarch64__)
EFL_ISA(neon)
#endif
#undef EFL_ISA
#if defined(__x86_64__)
namespace avx512_vnni {
void install_int8(Table&);
}
#elif defined(__aarch64__)
namespace neon_dotprod {
void install_int8(Table&);
}
namespace neon_i8mm {
void install_int8(Table&);
}
#endif

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

bool runs_vnni() {
    unsigned a, b, c, d;
    return runs_avx512() && __get_cpuid_count(7, 0, &a, &b, &c, &d) && has_bits(c, 1u << 11);
}
#elif defined(__aarch64__)
// Whether Linux says that the processor has this capability. Elsewhere the baseline's bodies run.
bool has_capability(unsigned long kind, unsigned long bit) {
#if defined(__linux__)
    return getauxval(kind) & bit;
#else
    return (void)kind, (void)bit, false;
#endif
}

bool runs_dotprod() { return has_capability(16, 1ul << 20); }  // AT_HWCAP, HWCAP_ASIMDDP
bool runs_i8mm() { return has_capability(26, 1ul << 13); }     // AT_HWCAP2, HWCAP2_I8MM
#endif

struct Isa {
    const char* name;
    bool (*runs)();
    void (*install)(Table&);
};

const Isa ladder[] = {
    {"scalar", always, scalar::install},
#if defined(__x86_64__)
    {"avx2", runs_avx2, avx2::install},
    {"avx512", runs_avx512, avx512::install},
#elif defined(__aarch64__)
    {"neon", always, neon::install},
#endif
};

// Instructions for products of int8 codes that some processors of an instruction set have. Results have the bits of the
// instruction set's own bodies.
struct CodeProducts {
    const char *name, *isa;
    bool (*runs)();
    void (*install)(Table&);
};

const CodeProducts code_products[] = {
    {"plain", "", always, [](Table&) {}},
#if defined(__x86_64__)
    {"vnni", "avx512", runs_vnni, avx512_vnni::install_int8},
#elif defined(__aarch64__)
    {"dotprod", "neon", runs_dotprod, neon_dotprod::install_int8},
    {"i8mm", "neon", runs_i8mm, neon_i8mm::install_int8},
#endif
};

Table current;
const Isa* in_use = nullptr;
const CodeProducts *codes_in_use = code_products, *highest_codes = std::end(code_products) - 1;

const Isa* find(const char* name) {
    for (const Isa& isa : ladder)
        if (name && !std::strcmp(isa.name, name)) return &isa;
    return nullptr;
}

void fill(const Isa* highest) {
    for (const Isa& isa : ladder) {
        if (&isa > highest || !isa.runs()) break;
        isa.install(current);
        in_use = &isa;
    }
    codes_in_use = code_products;
    for (const CodeProducts& each : code_products) {
        if (&each > highest_codes) break;
        if (std::strcmp(each.isa, in_use->name) || !each.runs()) continue;
        each.install(current);
        codes_in_use = &each;
    }
}

// EDGEFL_ISA is a cap: an instruction set above this CPU's best, or an unknown name, leaves the best in use. Python
// refuses such a name.
struct AtLoad {
    AtLoad() {
        const Isa* cap = find(std::getenv("EDGEFL_ISA"));
        fill(cap ? cap : ladder + sizeof ladder / sizeof *ladder - 1);
    }
} at_load;

}  // namespace

const Table& table() { return current; }

}  // namespace efl

const char* efl_isa(void) { return efl::in_use->name; }

efl_int32 efl_has_isa(const char* name) {
    const efl::Isa* isa = efl::find(name);
    return isa && isa->runs();
}

efl_status efl_cap_isa(const char* name) {
    if (!efl_has_isa(name)) return EFL_BAD_ISA;
    efl::fill(efl::find(name));
    return EFL_OK;
}

const char* efl_code_products(void) { return efl::codes_in_use->name; }

efl_status efl_cap_code_products(const char* name) {
    for (const auto& each : efl::code_products) {
        if (!name || std::strcmp(each.name, name)) continue;
        efl::highest_codes = &each;
        efl::fill(efl::in_use);
        return EFL_OK;
    }
    return EFL_BAD_ISA;
}
