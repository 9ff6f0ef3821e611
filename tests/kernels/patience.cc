// What tests/kernels/test_patience.py compiles: a caller that is stalled, on a clock and on processor times of its own.
// Each check that fails prints its line, and the program ends with 1.
#include "core/patience.h"

#include <cstdio>

using namespace efl;
using Ms = std::chrono::milliseconds;

static int failures = 0;

#define CHECK(condition) (void)((condition) || (std::printf("%s:%d: %s\n", __FILE__, __LINE__, #condition), ++failures))

// Milliseconds after the start of the test, and processor time: of all other threads of the process and of the caller.
static Clock::time_point at(int ms) { return Clock::time_point() + Ms(1'000'000 + ms); }
static Spent spent(int others, int caller) { return {Ms(others + caller), Ms(caller)}; }

static bool alone(Patience& patience, int ms, int others, int caller) {
    return patience.is_alone(at(ms), [=] { return spent(others, caller); });
}

// A wait of 3 ms that ends at `ms`, after a task of 1 ms, in which other threads of the process ran for so long.
static void stall(Patience& patience, int ms, int others_in_wait, int others, int caller) {
    patience.note_wait(Ms(1), Ms(3), spent(others_in_wait, 0), spent(others, caller), at(ms));
}

static void short_waits_are_no_stalls() {
    Patience patience;
    patience.note_wait(Ms(3), Ms(3), spent(0, 0), spent(0, 0), at(0));                           // as long as the work
    patience.note_wait(Ms(0), std::chrono::microseconds(200), spent(0, 0), spent(0, 0), at(0));  // short
    CHECK(!alone(patience, 0, 0, 0));
}

static void a_foreign_neighbour_is_left_alone_for_ten_waits() {
    Patience patience;
    stall(patience, 0, 1, 100, 100);      // others of this process ran for 1 of 3 ms: the end of the worker's task
    CHECK(alone(patience, 6, 100, 106));  // nobody else runs in this process, which says nothing of the neighbour
    CHECK(alone(patience, 29, 100, 129));
    CHECK(!alone(patience, 30, 100, 130));
    stall(patience, 40, 0, 100, 140);  // again, soon: twice as long
    CHECK(alone(patience, 99, 100, 199));
    CHECK(!alone(patience, 100, 100, 200));
}

static void a_spinning_neighbour_is_waited_for_until_it_sleeps() {
    Patience patience;
    stall(patience, 0, 3, 100, 100);
    CHECK(alone(patience, 4, 100, 104));   // too soon to look
    CHECK(alone(patience, 5, 105, 105));   // it spins
    CHECK(alone(patience, 10, 108, 110));  // it has spun for 3 of 5 ms
    CHECK(alone(patience, 14, 108, 114));
    CHECK(!alone(patience, 15, 108, 115));  // it has slept for 5 ms
    CHECK(!alone(patience, 16, 109, 116));
    CHECK(!alone(patience, 17, 200, 117));  // nobody looks any more
}

static void a_neighbour_that_spins_for_ever_is_tried_after_ten_waits() {
    Patience patience;
    stall(patience, 0, 3, 0, 0);
    for (int ms = 5; ms < 30; ms += 5) CHECK(alone(patience, ms, ms, ms));
    CHECK(!alone(patience, 30, 30, 30));
    stall(patience, 35, 3, 35, 35);
    for (int ms = 40; ms < 95; ms += 5) CHECK(alone(patience, ms, ms, ms));
    CHECK(!alone(patience, 95, 95, 95));
}

static void workers_that_come_too_late_four_times_are_left_for_two_milliseconds() {
    Patience patience;
    for (int job = 0; job < 3; ++job) patience.note_turnout(true, false, at(0));
    CHECK(!alone(patience, 0, 0, 0));
    patience.note_turnout(true, false, at(0));
    CHECK(alone(patience, 1, 0, 1) && !alone(patience, 2, 0, 2));
}

int main() {
    short_waits_are_no_stalls();
    a_foreign_neighbour_is_left_alone_for_ten_waits();
    a_spinning_neighbour_is_waited_for_until_it_sleeps();
    a_neighbour_that_spins_for_ever_is_tried_after_ten_waits();
    workers_that_come_too_late_four_times_are_left_for_two_milliseconds();
    return failures > 0;
}
