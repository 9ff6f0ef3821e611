// Which kinds of cores this machine has, as its kernel and its registers say: which of them are worth a thread, and
// whether they execute in order. Not what their instruction sets are, which is cpu.cc.
#pragma once
#include <cstdint>
#include <vector>

namespace efl {

// Of the processors `allowed` those that a thread each is worth, as `sys` ("/sys") describes them: all where they are
// alike or nothing is said.
//
// A job has two tasks a thread (split.cc). A core of less than half another's speed is still at its first task when
// that one has done both: the more such cores take part, the longer the others wait. So those with less than half of
// the largest cpu_capacity are left out, and where capacities are not given, cores in order beside others.
std::vector<int> preferred_cores(const char* sys, const std::vector<int>& allowed);

// Bits 31:0 of MIDR_EL1: of processor `cpu` as `sys` says, or 0; of the core that runs this, or 0.
uint32_t core_id(const char* sys, int cpu);
uint32_t own_core_id();

// Whether a core of such an id executes in order, and what its maker calls it: "Cortex-A53"; nullptr if not known.
bool is_in_order(uint32_t id);
const char* core_name(uint32_t id);

// Whether all processors that the pool's threads are meant for execute in order. Found once; tests set it.
bool& in_order();

// The processors that this process may use; empty where the system does not say.
std::vector<int> allowed_cores();

}  // namespace efl
