// Whether the caller of a job works alone, after a neighbour has put a worker aside in the middle of a task.
//
// A neighbour in another process works. It stays, as far as this process can see. So the caller works alone for several
// times the wait, and stalls cost at most a tenth of the time. When stalls come again soon after, it works alone twice
// as long each time.
//
// A neighbour in this process spins: OpenMP's threads do so for some milliseconds after each parallel part of PyTorch,
// and then sleep. The caller is not in such a part, as it waits for a job of ours. Processor time tells the two apart.
// While the caller waits, a thread that spins uses up the time of this process, and a foreign one does not. Then the
// caller works alone only until no other thread of this process uses a processor.
#pragma once
#include <chrono>

#include <time.h>

namespace efl {

using Clock = std::chrono::steady_clock;

// Processor time so far: of this process, and of the calling thread.
struct Spent {
    Clock::duration process{}, thread{};

    static Spent now() { return {of(CLOCK_PROCESS_CPUTIME_ID), of(CLOCK_THREAD_CPUTIME_ID)}; }

    Spent since(const Spent& before) const { return {process - before.process, thread - before.thread}; }

private:
    static Clock::duration of(clockid_t clock) {
        timespec time{};
        clock_gettime(clock, &time);
        const auto whole = std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
        return std::chrono::duration_cast<Clock::duration>(whole);
    }
};

class Patience {
public:
    // `spent` is a function, as a system call is made for it.
    template <class Read>
    bool is_alone(Clock::time_point now, Read spent) {
        if (now >= until_) return false;
        if (!is_spun_on_ || now < looked_ + look_every) return true;
        const Spent read = spent(), others = read.since(seen_);
        const bool spins = 2 * (others.process - others.thread) >= now - looked_;
        look(now, read);
        if (!spins) until_ = now;
        return spins;
    }

    // The caller worked for a time and then waited until now, in which the process spent so much.
    void note_wait(Clock::duration worked, Clock::duration waited, const Spent& in_wait, const Spent& after,
                   Clock::time_point now) {
        if (waited <= worked || waited <= stall_time) return;
        stall(waited, now);
        is_spun_on_ = 2 * in_wait.process >= waited;
        look(now, after);
    }

    // A job for which somebody was woken, or not; whether anybody came.
    void note_turnout(bool woken, bool came, Clock::time_point now) {
        misses_ = came ? 0 : misses_ + woken;
        if (misses_ < most_misses) return;
        misses_ = 0;
        stall(stall_time, now);
        is_spun_on_ = false;
    }

    static constexpr std::chrono::microseconds stall_time{200};  // a wait worth noticing
    static constexpr std::chrono::microseconds look_every{
        5000};                                              // Linux brings others' time up to date every 1 to 4 ms
    static constexpr int alone_for = 10, alone_most = 320;  // times the wait
    static constexpr int most_misses = 4;                   // jobs running for which nobody came who was woken

private:
    void stall(Clock::duration wait, Clock::time_point now) {
        const bool again = now < until_ + (until_ - since_);
        times_ = !again ? alone_for : times_ < alone_most ? 2 * times_ : alone_most;
        since_ = now;
        until_ = now + times_ * wait;
    }

    void look(Clock::time_point now, const Spent& spent) {
        looked_ = now;
        seen_ = spent;
    }

    Clock::time_point since_{}, until_{}, looked_{};
    Spent seen_;
    bool is_spun_on_ = false;  // whether the last stall was a thread of this process
    int times_ = alone_for, misses_ = 0;
};

}  // namespace efl
