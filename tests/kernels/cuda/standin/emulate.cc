// See emulate.h. A fiber is entered once by makecontext; after that threads change places by setjmp and longjmp, which,
// unlike swapcontext, make no system call.
#include "emulate.h"

#include <csetjmp>
#include <cstdlib>
#include <ucontext.h>

#include <algorithm>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#define LEAVE(fake, bottom, size) __sanitizer_start_switch_fiber(fake, bottom, size)
#define ARRIVE(fake, bottom, size) __sanitizer_finish_switch_fiber(fake, bottom, size)
#else
#define LEAVE(fake, bottom, size) (void)(fake), (void)(bottom), (void)(size)
#define ARRIVE(fake, bottom, size) (void)(fake), (void)(bottom), (void)(size)
#endif

emulate::Dim threadIdx, blockIdx, blockDim, gridDim;

// The bounds of what EFL_SHARED declares; the linker names them. One byte, so that there is such a section.
static __attribute__((section("efl_shared"), used)) char first_shared;
extern char __start_efl_shared, __stop_efl_shared;

namespace emulate {
namespace {

constexpr size_t STACK = 128 << 10;

// Where a thread waits. RELEASED: its warp has met, so that it may go on.
enum class State { AT_BARRIER, MEETING, RELEASED, DONE };

struct Fiber {
    std::unique_ptr<char[]> stack{new char[STACK]};
    ucontext_t begin;
    jmp_buf place;
    void* fake = nullptr;
    bool is_begun = false;
    State state = State::AT_BARRIER;
    unsigned thread = 0;      // of its block
    unsigned pass = 0;        // in which it has run
    void* brought = nullptr;  // to an operation of its warp
};

Kernel* kernels = nullptr;
std::string said, objection;
std::vector<std::unique_ptr<Fiber>> fibers;
Fiber* current = nullptr;
jmp_buf scheduler;
void* scheduler_fake = nullptr;
const void* scheduler_bottom = nullptr;
size_t scheduler_size = 0;
const Kernel* running = nullptr;
const void* running_arguments = nullptr;

// Leaves a fiber for the scheduler, until it is resumed.
void pause(Fiber& self) {
    if (_setjmp(self.place) == 0) {
        LEAVE(&self.fake, scheduler_bottom, scheduler_size);
        _longjmp(scheduler, 1);
    }
    ARRIVE(self.fake, &scheduler_bottom, &scheduler_size);
}

void enter() {
    Fiber& self = *current;
    ARRIVE(nullptr, &scheduler_bottom, &scheduler_size);
    for (;;) {
        running->body(running_arguments);
        self.state = State::DONE;
        pause(self);
    }
}

void resume(Fiber& fiber) {
    current = &fiber;
    if (_setjmp(scheduler) == 0) {
        LEAVE(&scheduler_fake, fiber.stack.get(), STACK);
        if (fiber.is_begun) _longjmp(fiber.place, 1);
        fiber.is_begun = true;
        setcontext(&fiber.begin);
    }
    ARRIVE(scheduler_fake, nullptr, nullptr);
}

void add_fiber() {
    fibers.push_back(std::make_unique<Fiber>());
    fibers.back()->thread = unsigned(fibers.size() - 1);
    ucontext_t& begin = fibers.back()->begin;
    getcontext(&begin);
    begin.uc_stack.ss_sp = fibers.back()->stack.get();
    begin.uc_stack.ss_size = STACK;
    begin.uc_link = nullptr;
    makecontext(&begin, enter, 0);
}

// The thread that comes i-th in a pass.
unsigned turn(unsigned i, unsigned count, unsigned pass) {
    if (order == 0) return i;
    if (order == 1) return count - 1 - i;
    return (i % 2 ? count - 1 - i / 2 : i / 2 + pass) % count;
}

// What all kernels declare is 1.7 MB. With stores of single bytes, a test of training steps took 32 s of CPU instead of
// 4.3 s. memset is not called, because the address sanitizer's memset complains of the zones between the arrays.
__attribute__((no_sanitize("address"))) void spoil_shared() {
    using Words __attribute__((vector_size(32), may_alias, aligned(1))) = long long;
    volatile char* p = &__start_efl_shared;
    for (; &__stop_efl_shared - p >= long(sizeof(Words)); p += sizeof(Words))
        *reinterpret_cast<volatile Words*>(p) = Words{-1, -1, -1, -1};
    for (; p < &__stop_efl_shared; ++p) *p = char(0xff);
}

void place(unsigned thread) {
    threadIdx = {thread % blockDim.x, thread / blockDim.x % blockDim.y, thread / (blockDim.x * blockDim.y)};
}

using Fibers = std::vector<Fiber*>;

long count_in(State state, const Fibers& some) {
    return std::count_if(some.begin(), some.end(), [&](Fiber* each) { return each->state == state; });
}

bool complain(const std::string& what) {
    said = std::string(running->name) + ": " + what;
    fibers.clear();  // some are in the middle of it
    return false;
}

// All threads, in the order in which they come in a pass.
Fibers in_turn(unsigned count, unsigned pass) {
    Fibers found;
    std::vector<bool> seen(count);
    for (unsigned i = 0; i < count; ++i) {
        unsigned thread = turn(i, count, pass);
        while (seen[thread]) thread = (thread + 1) % count;
        seen[thread] = true;
        found.push_back(fibers[thread].get());
    }
    return found;
}

// Runs a thread until it waits, if it has not come to the end of this pass; whether it ran.
bool advance(Fiber& fiber, unsigned pass) {
    const bool is_due = fiber.state == State::AT_BARRIER && fiber.pass != pass;
    if (!is_due && fiber.state != State::RELEASED) return false;
    fiber.pass = pass;
    fiber.state = State::AT_BARRIER;  // that is where it comes to, if it says nothing else
    place(fiber.thread);
    resume(fiber);
    return true;
}

// Runs a warp to its next barrier. False if some threads wait for others that do not come.
bool advance_warp(unsigned warp, const Fibers& turns, unsigned pass) {
    Fibers lanes;
    std::copy_if(turns.begin(), turns.end(), std::back_inserter(lanes),
                 [&](Fiber* each) { return each->thread / WARP == warp; });
    for (bool is_moving = true; is_moving;) {
        is_moving = false;
        for (Fiber* const lane : lanes) is_moving |= advance(*lane, pass);
    }
    const long waiting = count_in(State::MEETING, lanes);
    return waiting == 0 || complain(std::to_string(waiting) + " of " + std::to_string(WARP) + " threads of warp " +
                                    std::to_string(warp) + " come to an operation of the warp");
}

bool run_block(unsigned count) {
    spoil_shared();
    if (listener) listener->block_begins();
    for (unsigned i = 0; i < count; ++i) fibers[i]->state = State::AT_BARRIER, fibers[i]->pass = 0;
    for (unsigned pass = 1;; ++pass) {
        const Fibers turns = in_turn(count, pass - 1);
        for (Fiber* const each : turns) {
            advance(*each, pass);
            if (each->state == State::MEETING && !advance_warp(each->thread / WARP, turns, pass)) return false;
        }
        if (listener) listener->barrier();
        const long done = count_in(State::DONE, turns);
        if (done == long(count)) return objection.empty() || complain(std::exchange(objection, {}));
        if (done > 0)
            return complain(std::to_string(done) + " of " + std::to_string(count) +
                            " threads end while the others wait at a barrier");
    }
}

}  // namespace

int order = [] {
    const char* const asked = std::getenv("EDGEFL_STANDIN_ORDER");
    return asked ? std::atoi(asked) : 0;
}();

Kernel::Kernel(const char* name, int threads, size_t arguments, Body body)
    : name(name), threads(threads), arguments(arguments), body(body), next(kernels) {
    kernels = this;
}

const Kernel* find(const char* name) {
    for (const Kernel* kernel = kernels; kernel; kernel = kernel->next)
        if (std::strcmp(kernel->name, name) == 0) return kernel;
    return nullptr;
}

Listener* listener = nullptr;

unsigned running_thread() { return current->thread; }

bool is_local(const void* place) {
    const char* const at = static_cast<const char*>(place);
    return at >= current->stack.get() && at < current->stack.get() + STACK;
}

bool is_shared(const void* place) { return place >= &__start_efl_shared && place < &__stop_efl_shared; }

const char* complaint() { return said.c_str(); }

void object(const std::string& what) {
    if (objection.empty()) objection = what;
}

void wait() {
    pause(*current);
}

void meet(void* brought, Operation operate) {
    Fiber& self = *current;
    self.brought = brought;
    self.state = State::MEETING;
    const unsigned first = self.thread / WARP * WARP, last = first + WARP, count = blockDim.x * blockDim.y * blockDim.z;
    void* all[WARP];
    for (unsigned thread = first; thread < last; ++thread) {
        if (thread >= count || fibers[thread]->state != State::MEETING) return pause(self);
        all[thread - first] = fibers[thread]->brought;
    }
    operate(all);
    for (unsigned thread = first; thread < last; ++thread) fibers[thread]->state = State::RELEASED;
    self.state = State::AT_BARRIER;
}

bool run(const Kernel& kernel, Dim grid, Dim block, const void* arguments) {
    running = &kernel;
    running_arguments = arguments;
    objection.clear();
    gridDim = grid;
    blockDim = block;
    const unsigned count = block.x * block.y * block.z;
    while (fibers.size() < count) add_fiber();
    if (listener) listener->launch_begins(kernel, grid, block, arguments);
    for (unsigned z = 0; z < grid.z; ++z)
        for (unsigned y = 0; y < grid.y; ++y)
            for (unsigned x = 0; x < grid.x; ++x) {
                blockIdx = {x, y, z};
                if (!run_block(count)) return false;
            }
    const std::string wrong = listener ? listener->launch_ends() : "";
    return wrong.empty() || complain(wrong);
}

}  // namespace emulate
