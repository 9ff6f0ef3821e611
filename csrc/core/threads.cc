// The thread pool: the caller opens a job, workers that are awake join it, everyone claims indices from one counter.
//
// A worker that wakes late finds the job closed and goes back to sleep, so the caller never waits for one that has
// nothing to do. `inside` counts workers between joining and leaving: each side writes its own flag and then reads the
// other's (sequentially consistent), so either the worker sees the job closed or the caller sees the worker inside.
//
// A worker that shares its processor with a busy neighbour may be put aside for milliseconds in the middle of a task.
// When the caller waited longer than it had worked itself, and long, it does all jobs alone for four times that wait:
// then stalls cost at most a fifth of the time.
#include "threads.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <thread>
#include <vector>

#include <pthread.h>
#if defined(__linux__)
#include <sched.h>
#endif

#include "abi.h"

namespace efl {
namespace {

constexpr int max_threads = 1024;
constexpr std::chrono::microseconds spin_time{20};
constexpr std::chrono::microseconds stall_time{200};  // a wait worth noticing
constexpr int alone_for = 4;                          // times the wait

thread_local bool in_task = false;

int available_cpus() {
#if defined(__linux__)
    cpu_set_t set;
    if (!sched_getaffinity(0, sizeof set, &set)) return CPU_COUNT(&set);
#endif
    const int n = int(std::thread::hardware_concurrency());
    return n > 0 ? n : 1;
}

int threads_at_load() {
    const char* text = std::getenv("EDGEFL_NUM_THREADS");
    const long asked = text ? std::strtol(text, nullptr, 10) : 0;
    return asked >= 1 && asked <= max_threads ? int(asked) : available_cpus();
}

inline void pause() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

// Polls `done` for spin_time; false if it did not come true.
template <class Done>
bool spin_until(Done done) {
    static const bool spare_cpu = available_cpus() > 1;
    if (!spare_cpu) return done();
    const auto end = std::chrono::steady_clock::now() + spin_time;
    do {
        for (int i = 0; i < 32; ++i) {
            if (done()) return true;
            pause();
        }
    } while (std::chrono::steady_clock::now() < end);
    return done();
}

using Clock = std::chrono::steady_clock;

class Pool {
public:
    explicit Pool(int threads) : threads_(threads) {}

    int threads() const { return threads_.load(std::memory_order_relaxed); }

    void resize(int threads) {
        std::lock_guard<std::mutex> turn(busy_);
        stop();
        threads_ = threads;
        alone_until_ = {};
    }

    void run(int64_t count, void (*task)(void*, int64_t), void* context) {
        std::unique_lock<std::mutex> turn(busy_, std::defer_lock);
        if (count == 1 || threads() == 1 || in_task || !turn.try_lock() || Clock::now() < alone_until_) {
            for (int64_t i = 0; i < count; ++i) task(context, i);
            return;
        }
        start();
        task_ = task;
        context_ = context;
        count_ = count;
        next_.store(0, std::memory_order_relaxed);
        open_.store(true);
        announce(count - 1);
        const Clock::time_point begin = Clock::now();
        in_task = true;
        claim();
        in_task = false;
        const Clock::time_point end = Clock::now();
        open_.store(false);
        wait_until_empty();
        const Clock::time_point now = Clock::now();
        if (now - end > end - begin && now - end > stall_time) alone_until_ = now + alone_for * (now - end);
    }

private:
    void claim() {
        for (int64_t i; (i = next_.fetch_add(1, std::memory_order_relaxed)) < count_;) task_(context_, i);
    }

    void announce(int64_t useful) {
        generation_.fetch_add(1);
        if (!parked_.load()) return;
        std::lock_guard<std::mutex> lock(mutex_);
        if (useful >= int64_t(workers_.size())) return wake_.notify_all();
        for (int64_t i = 0; i < useful; ++i) wake_.notify_one();
    }

    void wait_until_empty() {
        const auto empty = [this] { return inside_.load() == 0; };
        if (spin_until(empty)) return;
        std::unique_lock<std::mutex> lock(mutex_);
        caller_waits_.store(true);
        left_.wait(lock, empty);
        caller_waits_.store(false);
    }

    void join_job() {
        inside_.fetch_add(1);
        if (open_.load()) claim();
        if (inside_.fetch_sub(1) == 1 && caller_waits_.load()) {
            std::lock_guard<std::mutex> lock(mutex_);
            left_.notify_one();
        }
    }

    void work(unsigned seen) {
        in_task = true;  // the first use: allocates the thread's variables
        ready_.fetch_add(1);
        const auto news = [this, &seen] { return generation_.load() != seen; };
        for (;;) {
            if (!spin_until(news)) {
                std::unique_lock<std::mutex> lock(mutex_);
                parked_.fetch_add(1);
                wake_.wait(lock, news);
                parked_.fetch_sub(1);
            }
            seen = generation_.load();
            if (stopping_.load()) return;
            join_job();
        }
    }

    // Waits until the workers run, so that what a starting thread allocates is not put down to a later job.
    void start() {
        if (!workers_.empty()) return;
        const unsigned now = generation_.load();
        ready_.store(0);
        try {
            for (int i = 1; i < threads(); ++i) workers_.emplace_back([this, now] { work(now); });
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
    std::mutex busy_;  // held by the one caller whose job is open
    std::vector<std::thread> workers_;

    void (*task_)(void*, int64_t) = nullptr;
    void* context_ = nullptr;
    int64_t count_ = 0;
    Clock::time_point alone_until_{};  // guarded by busy_
    std::atomic<int64_t> next_{0};
    std::atomic<bool> open_{false};
    std::atomic<int> inside_{0};
    std::atomic<int> ready_{0};  // workers that have begun to run

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
    pool = new Pool(pool->threads());
}

struct AtLoad {
    AtLoad() {
        pool = new Pool(threads_at_load());
        pthread_atfork(nullptr, nullptr, renew_in_child);
    }
} at_load;

}  // namespace

void parallel_for(int64_t count, void (*task)(void*, int64_t), void* context) {
    if (count > 0) pool->run(count, task, context);
}

int threads() { return pool->threads(); }

}  // namespace efl

efl_int32 efl_threads(void) { return efl::threads(); }

efl_status efl_set_threads(efl_int32 threads) {
    if (threads < 1 || threads > efl::max_threads || efl::in_task) return EFL_BAD_ARGUMENT;
    efl::pool->resize(threads);
    return EFL_OK;
}
