#include "cores.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#if defined(__linux__)
#include <sched.h>
#if defined(__aarch64__)
#include <sys/auxv.h>
#endif
#endif

#include "abi.h"

namespace efl {
namespace {

struct Kind {
    uint32_t part;  // of maker 0x41, Arm
    bool in_order;
    const char* name;
};

const Kind kinds[] = {
    {0xd01, true, "Cortex-A32"},   {0xd02, true, "Cortex-A34"},   {0xd03, true, "Cortex-A53"},
    {0xd04, true, "Cortex-A35"},   {0xd05, true, "Cortex-A55"},   {0xd07, false, "Cortex-A57"},
    {0xd08, false, "Cortex-A72"},  {0xd09, false, "Cortex-A73"},  {0xd0a, false, "Cortex-A75"},
    {0xd0b, false, "Cortex-A76"},  {0xd0c, false, "Neoverse N1"}, {0xd0d, false, "Cortex-A77"},
    {0xd40, false, "Neoverse V1"}, {0xd41, false, "Cortex-A78"},  {0xd42, false, "Cortex-A78AE"},
    {0xd44, false, "Cortex-X1"},   {0xd46, true, "Cortex-A510"},  {0xd47, false, "Cortex-A710"},
    {0xd49, false, "Neoverse N2"}, {0xd80, true, "Cortex-A520"},
};

const Kind* kind_of(uint32_t id) {
    if (id >> 24 != 0x41) return nullptr;
    for (const Kind& kind : kinds)
        if (kind.part == (id >> 4 & 0xfff)) return &kind;
    return nullptr;
}

// The number in a file of processor `cpu`; 0 if there is none.
uint64_t number_of(const char* sys, int cpu, const char* name) {
    const std::string path = std::string(sys) + "/devices/system/cpu/cpu" + std::to_string(cpu) + "/" + name;
    std::FILE* file = std::fopen(path.c_str(), "r");
    if (!file) return 0;
    char text[32] = {};
    const size_t size = std::fread(text, 1, sizeof text - 1, file);
    std::fclose(file);
    return size ? std::strtoull(text, nullptr, 0) : 0;
}

// The processors for which `keeps` holds; all of them where that is none.
template <class Keeps>
std::vector<int> those(const std::vector<int>& cpus, Keeps keeps) {
    std::vector<int> kept;
    std::copy_if(cpus.begin(), cpus.end(), std::back_inserter(kept), keeps);
    return kept.empty() ? cpus : kept;
}

bool find_in_order() {
    const std::vector<int> cpus = preferred_cores("/sys", allowed_cores());
    bool said = false;
    for (int cpu : cpus) {
        const uint32_t id = core_id("/sys", cpu);
        if (id && !is_in_order(id)) return false;
        said = said || id;
    }
    return said || is_in_order(own_core_id());
}

}  // namespace

uint32_t core_id(const char* sys, int cpu) { return uint32_t(number_of(sys, cpu, "regs/identification/midr_el1")); }

uint32_t own_core_id() {
#if defined(__linux__) && defined(__aarch64__)
    const unsigned long cpuid = 1ul << 11;  // HWCAP_CPUID: the kernel answers for the register
    if (getauxval(AT_HWCAP) & cpuid) {
        uint64_t id;
        __asm__("mrs %0, MIDR_EL1" : "=r"(id));
        return uint32_t(id);
    }
#endif
    return 0;
}

bool is_in_order(uint32_t id) {
    const Kind* kind = kind_of(id);
    return kind && kind->in_order;
}

const char* core_name(uint32_t id) {
    const Kind* kind = kind_of(id);
    return kind ? kind->name : nullptr;
}

std::vector<int> preferred_cores(const char* sys, const std::vector<int>& allowed) {
    uint64_t largest = 0;
    bool said = true;
    for (int cpu : allowed) {
        const uint64_t capacity = number_of(sys, cpu, "cpu_capacity");
        largest = std::max(largest, capacity), said = said && capacity;
    }
    if (said) return those(allowed, [&](int cpu) { return 2 * number_of(sys, cpu, "cpu_capacity") >= largest; });
    return those(allowed, [&](int cpu) { return !is_in_order(core_id(sys, cpu)); });
}

std::vector<int> allowed_cores() {
    std::vector<int> cpus;
#if defined(__linux__)
    cpu_set_t set;
    if (!sched_getaffinity(0, sizeof set, &set))
        for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
            if (CPU_ISSET(cpu, &set)) cpus.push_back(cpu);
#endif
    return cpus;
}

bool& in_order() {
    static bool found = find_in_order();
    return found;
}

}  // namespace efl

efl_int32 efl_preferred_cores(const char* sys, efl_int32* cores, efl_int32 count) {
    const std::vector<int> kept = efl::preferred_cores(sys, {cores, cores + count});
    std::copy(kept.begin(), kept.end(), cores);
    return efl_int32(kept.size());
}

efl_uint32 efl_core_id(const char* sys, efl_int32 core) { return sys ? efl::core_id(sys, core) : efl::own_core_id(); }

const char* efl_core_name(efl_uint32 id) { return efl::core_name(id); }

efl_int32 efl_in_order(void) { return efl::in_order(); }

void efl_set_in_order(efl_int32 in_order) { efl::in_order() = in_order; }
