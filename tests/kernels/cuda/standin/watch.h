// Every load and store of a kernel, seen where the kernels are compiled with -fsanitize=thread: its calls come here
// instead of to the sanitizer's library. They are followed for races (races.cc) and counted (traffic.cc). Linked into a
// stand-in of its own (EDGEFL_STANDIN_WATCH).
//
// What it sees is what g++ -O1 makes of the sources: a value that stays in a register there is one that nvcc, too, can
// keep in one.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>

namespace watch {

enum class Space { GLOBAL, SHARED };

// By one thread. code: where the kernel goes on after it, in bytes from where the library begins, which names its line.
struct Access {
    Space space;
    bool is_store;
    uintptr_t at;
    unsigned size;
    uintptr_t code;
};

// ---- races.cc ------------------------------------------------------------------------------------------------------

void races_launch_begins();
void races_block_begins();
void races_barrier();  // all threads of a block have come to the next one, or to its end
void races_follow(const Access& access, unsigned thread);
const std::string& first_race();  // of this launch; empty if there is none
// Bytes of device memory that this launch has read before it wrote them, and has written, each byte once.
size_t bytes_read_once();
size_t bytes_written_once();

// ---- traffic.cc ----------------------------------------------------------------------------------------------------

void traffic_launch_begins(const char* kernel, unsigned blocks, unsigned threads);
void traffic_barrier();
void traffic_count(const Access& access, unsigned thread);
void traffic_launch_ends(uint64_t products);

}  // namespace watch
