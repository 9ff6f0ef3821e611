// The thread pool: the caller opens a job, workers that are awake join it, and everyone claims indices until none is
// left.
//
// Every thread has a share of a job's indices, every n-th of them, always the same: so the calls of a step, which are
// cut alike, find in a thread's cache what it wrote before. Who is done with its share goes on with the others': a
// worker that comes late, or not at all, leaves its share to the rest. A worker that wakes late finds the job closed,
// so the caller never waits for one that has nothing to do. `inside` counts workers between joining and leaving: each
// side writes its own flag and then reads the other's (sequentially consistent), so either the worker sees the job
// closed or the caller sees the worker inside.
//
// To wake a parked worker costs its caller 5 to 45 us (a virtual machine has to start the processor), a job for one
// that still spins less than 1 us, so workers spin for longer than the calls between two jobs of a step take.
//
// A worker that shares its processor with a busy neighbour may be put aside for milliseconds in the middle of a task.
// When the caller waited longer than it had worked itself, and long, it does all jobs alone for a while (patience.h).
// The same where workers were woken several times running and came too late for anything: each time cost a wake. A
// worker that finds itself on its caller's processor parks at once, as there it only takes the caller's time.
#include "threads.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include <pthread.h>
#if defined(__linux__)
#include <sched.h>
#endif
#include <unistd.h>

#include "abi.h"
#include "cores.h"
#include "patience.h"

namespace efl {
namespace {

constexpr int max_threads = 1024;
constexpr std::chrono::microseconds idle_spin{200};  // of a worker without a job
constexpr std::chrono::microseconds wait_spin{20};   // of the caller, whose processor a worker may need

thread_local bool in_task = false;

int available_cpus() {
#if defined(__linux__)
    cpu_set_t set;
    if (!sched_getaffinity(0, sizeof set, &set)) return CPU_COUNT(&set);
#endif
    const int n = int(std::thread::hardware_concurrency());
    return n > 0 ? n : 1;
}

// The processors that threads are meant for, where these are not all; empty where they are.
std::vector<int> chosen_cores() {
    const std::vector<int> allowed = allowed_cores(), preferred = preferred_cores("/sys", allowed);
    return preferred.size() < allowed.size() ? preferred : std::vector<int>();
}

int threads_at_load(const std::vector<int>& chosen) {
    const char* text = std::getenv("EDGEFL_NUM_THREADS");
    const long asked = text ? std::strtol(text, nullptr, 10) : 0;
    return asked >= 1 && asked <= max_threads ? int(asked) : chosen.empty() ? available_cpus() : int(chosen.size());
}

#if defined(__linux__)
cpu_set_t set_of(const std::vector<int>& cpus) {
    cpu_set_t set;
    CPU_ZERO(&set);
    for (int cpu : cpus) CPU_SET(cpu, &set);
    return set;
}
#endif

// The calling thread runs on these processors alone, where the system lets it.
void stay_on(const std::vector<int>& cpus) {
#if defined(__linux__)
    const cpu_set_t set = set_of(cpus);
    if (!cpus.empty()) sched_setaffinity(0, sizeof set, &set);
#endif
}

inline void pause() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

// The processor that this thread runs on; -1 if the system does not say.
inline int processor() {
#if defined(__linux__)
    return sched_getcpu();
#else
    return -1;
#endif
}

// Polls `done` for a time; false if it did not come true.
template <class Done>
bool spin_until(std::chrono::microseconds time, Done done) {
    static const bool spare_cpu = available_cpus() > 1;
    if (!spare_cpu) return done();
    const auto end = std::chrono::steady_clock::now() + time;
    do {
        for (int i = 0; i < 32; ++i) {
            if (done()) return true;
            pause();
        }
    } while (std::chrono::steady_clock::now() < end);
    return done();
}

// A thread's share of a job: the index that is claimed next, by whoever is free.
struct alignas(64) Share {
    std::atomic<int64_t> next{0};
};

class Pool {
public:
    Pool(int threads, std::vector<int> chosen) : threads_(threads), chosen_(std::move(chosen)) {}

    const std::vector<int>& chosen() const { return chosen_; }

    int threads() const { return threads_.load(std::memory_order_relaxed); }

    void resize(int threads) {
        std::lock_guard<std::mutex> turn(busy_);
        stop();
        threads_ = threads;
        patience_ = {};
    }

    void run(int64_t count, int64_t most, Task* task, void* context) {
        std::unique_lock<std::mutex> turn(busy_, std::defer_lock);
        if (count == 1 || most == 1 || threads() == 1 || in_task || !turn.try_lock() ||
            patience_.is_alone(Clock::now(), Spent::now)) {
            for (int64_t i = 0; i < count; ++i) task(context, i, 0);
            return;
        }
        start();
        task_ = task;
        context_ = context;
        most_ = size_t(most);
        partition(count);
        home_.store(processor(), std::memory_order_relaxed);
        joined_.store(0, std::memory_order_relaxed);
        open_.store(true);
        const bool woken = announce(count - 1);
        const Clock::time_point begin = Clock::now();
        in_task = true;
        claim(0);
        in_task = false;
        const Clock::time_point end = Clock::now();
        open_.store(false);
        if (!spin_until(wait_spin, [this] { return is_empty(); })) sleep_until_empty(end - begin);
        patience_.note_turnout(woken, joined_.load(std::memory_order_relaxed) > 0, Clock::now());
    }

private:
    void partition(int64_t count) {
        count_ = count;
        for (size_t k = 0; k < shares_.size(); ++k) shares_[k].next.store(int64_t(k), std::memory_order_relaxed);
    }

    // The tasks of share `own`, then those that are left of the others.
    void claim(size_t own) {
        const int64_t stride = int64_t(shares_.size());
        for (size_t k = 0; k < shares_.size(); ++k) {
            std::atomic<int64_t>& next = shares_[(own + k) % shares_.size()].next;
            for (int64_t i; (i = next.fetch_add(stride, std::memory_order_relaxed)) < count_;)
                task_(context_, i, int64_t(own));
        }
    }

    // Whether somebody had to be woken.
    bool announce(int64_t useful) {
        generation_.fetch_add(1);
        if (!parked_.load()) return false;
        std::lock_guard<std::mutex> lock(mutex_);
        if (useful >= int64_t(workers_.size())) wake_.notify_all();
        else
            for (int64_t i = 0; i < useful; ++i) wake_.notify_one();
        return true;
    }

    bool is_empty() const { return inside_.load() == 0; }

    // After the caller has worked for so long.
    void sleep_until_empty(Clock::duration worked) {
        const Clock::time_point begin = Clock::now();
        const Spent before = Spent::now();
        {
            std::unique_lock<std::mutex> lock(mutex_);
            caller_waits_.store(true);
            left_.wait(lock, [this] { return is_empty(); });
            caller_waits_.store(false);
        }
        const Spent after = Spent::now();
        const Clock::time_point now = Clock::now();
        patience_.note_wait(worked, now - begin, after.since(before), after, now);
    }

    void join_job(size_t own) {
        inside_.fetch_add(1);
        if (open_.load() && own < most_) {
            joined_.fetch_add(1, std::memory_order_relaxed);
            claim(own);
        }
        if (inside_.fetch_sub(1) == 1 && caller_waits_.load()) {
            std::lock_guard<std::mutex> lock(mutex_);
            left_.notify_one();
        }
    }

    void work(size_t own, unsigned seen) {
        if (size_t(threads()) <= chosen_.size()) stay_on(chosen_);
        in_task = true;  // the first use: allocates the thread's variables
        ready_.fetch_add(1);
        const auto news = [this, &seen] { return generation_.load() != seen; };
        for (;;) {
            if (is_in_the_way() || !spin_until(idle_spin, news)) {
                std::unique_lock<std::mutex> lock(mutex_);
                parked_.fetch_add(1);
                wake_.wait(lock, news);
                parked_.fetch_sub(1);
            }
            seen = generation_.load();
            if (stopping_.load()) return;
            if (!is_in_the_way() || move_away()) join_job(own);
        }
    }

    // Moves this worker off its caller's processor, to another that the main thread may use; false if there is none.
    // The system wakes a worker where it slept if no processor is idle, and would leave it there. Nothing is allocated:
    // a thread's first allocation takes pages.
    bool move_away() const {
#if defined(__linux__)
        cpu_set_t others = set_of(chosen_);
        if (chosen_.empty() && sched_getaffinity(getpid(), sizeof others, &others)) return false;
        CPU_CLR(size_t(home_.load(std::memory_order_relaxed)), &others);
        if (CPU_COUNT(&others)) sched_setaffinity(0, sizeof others, &others);
#endif
        return !is_in_the_way();
    }

    bool is_in_the_way() const { return processor() >= 0 && processor() == home_.load(std::memory_order_relaxed); }

    // Waits until the workers run, so that what a starting thread allocates is not put down to a later job.
    void start() {
        if (!workers_.empty()) return;
        const unsigned now = generation_.load();
        ready_.store(0);
        try {
            shares_ = std::vector<Share>(size_t(threads()));
            for (size_t i = 1; i < shares_.size(); ++i) workers_.emplace_back([this, i, now] { work(i, now); });
        } catch (...) {
            // Fewer threads than asked for, or none: the job still runs, on those there are.
        }
        while (ready_.load() < int(workers_.size())) std::this_thread::yield();
    }

    void stop() {
        stopping_.store(true);
        announce(int64_t(workers_.size()));
        for (std::thread& worker : workers_) worker.join();
        workers_.clear();
        stopping_.store(false);
    }

    std::atomic<int> threads_;
    const std::vector<int> chosen_;  // the processors on which as many workers stay, or none
    std::mutex busy_;                // held by the one caller whose job is open
    std::vector<std::thread> workers_;

    Task* task_ = nullptr;
    void* context_ = nullptr;
    int64_t count_ = 0;
    size_t most_ = 0;            // threads that may take part
    std::vector<Share> shares_;  // the caller's, then the workers'
    Patience patience_;          // guarded by busy_
    std::atomic<bool> open_{false};
    std::atomic<int> inside_{0};
    std::atomic<int> joined_{0};  // workers that came while the job was open
    std::atomic<int> home_{-1};   // the processor that the last caller was on
    std::atomic<int> ready_{0};   // workers that have begun to run

    std::mutex mutex_;  // guards the two conditions below
    std::condition_variable wake_, left_;
    std::atomic<unsigned> generation_{0};
    std::atomic<int> parked_{0};
    std::atomic<bool> caller_waits_{false}, stopping_{false};
};

// Never destroyed: workers may still be parked in it when the process exits. A child process has none of its parent's
// threads and finds the locks in any state, so it gets a new pool, whose threads start when first needed.
Pool* pool = nullptr;

void renew_in_child() {
    in_task = false;
    pool = new Pool(pool->threads(), pool->chosen());
}

struct PoolAtLoad {
    PoolAtLoad() {
        const std::vector<int> chosen = chosen_cores();
        pool = new Pool(threads_at_load(chosen), chosen);
        pthread_atfork(nullptr, nullptr, renew_in_child);
    }
} pool_at_load;

}  // namespace

void parallel_for(int64_t count, int64_t most, Task* task, void* context) {
    if (count > 0) pool->run(count, most, task, context);
}

int threads() { return pool->threads(); }

}  // namespace efl

efl_int32 efl_threads(void) { return efl::threads(); }

efl_status efl_set_threads(efl_int32 threads) {
    if (threads < 1 || threads > efl::max_threads || efl::in_task) return EFL_BAD_ARGUMENT;
    efl::pool->resize(threads);
    return EFL_OK;
}
