// What loads and stores cost a GPU's memory, counted as the CUDA programming guide describes it: the threads of a warp
// that come to one place of the code make one request. In device memory it takes as many sectors of 32 bytes as it
// touches; the least is what the bytes asked for would fill. In shared memory it takes as many turns as it touches
// words of one of the 32 banks; for 16 bytes of each thread a quarter of the warp at a time, for 8 a half, and twice as
// many at a time if all neighbours, or all that are two apart, load the same (NVIDIA's forum, 77228); the least is what
// that would take without conflicts of banks. Caches are not modelled.
//
//     standin_traffic()    lines of comma-separated fields, since standin_traffic_reset:
//         launch,KERNEL,launches,blocks,threads,products (by fmaf),bytes read once,bytes written once
//         site,KERNEL,global|shared,load|store,OFFSET of the code in the library,requests,taken,least
#include "watch.h"

#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace watch {
namespace {

constexpr unsigned WARP = 32, BANKS = 32, WORD = 4, SECTOR = 32, THREADS = 1024;

struct Request {
    std::array<uintptr_t, WARP> at;  // of its threads, in the order in which they came
    unsigned lanes = 0, size = 0;
    std::array<unsigned char, WARP> lane;
};

struct Site {
    bool is_shared = false, is_store = false;
    uint64_t requests = 0, taken = 0, least = 0;
    std::array<std::vector<Request>, THREADS / WARP> pending;  // of each warp, since the last barrier
    std::array<unsigned, THREADS> made{};                      // of each thread, since then
};

struct Counted {
    uint64_t launches = 0, blocks = 0, threads = 0, products = 0, read = 0, written = 0;
    std::unordered_map<uintptr_t, Site> sites;
};

std::map<std::string, Counted> kernels;
Counted* now = nullptr;
std::vector<Site*> touched;  // since the last barrier
struct {
    uintptr_t code = 0;
    Site* site = nullptr;
} recent[256];

Site& site_of(const Access& access) {
    auto& slot = recent[access.code % 256];
    if (slot.code == access.code) return *slot.site;
    Site& site = now->sites[access.code];
    site.is_shared = access.space == Space::SHARED;
    site.is_store = access.is_store;
    slot = {access.code, &site};
    return site;
}

// How many different numbers there are; they are sorted by it.
size_t different(std::vector<uintptr_t>& numbers) {
    std::sort(numbers.begin(), numbers.end());
    numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
    return numbers.size();
}

// What the threads touch of so many bytes each, numbered.
std::vector<uintptr_t> pieces(const Request& request, unsigned bytes, unsigned first_lane, unsigned end_lane) {
    std::vector<uintptr_t> found;
    for (unsigned i = 0; i < request.lanes; ++i) {
        if (request.lane[i] < first_lane || request.lane[i] >= end_lane) continue;
        const uintptr_t last = (request.at[i] + request.size - 1) / bytes;
        for (uintptr_t piece = request.at[i] / bytes; piece <= last; ++piece) found.push_back(piece);
    }
    return found;
}

// Turns that shared memory takes for these words: of each bank one at a time.
uint64_t turns(std::vector<uintptr_t> words) {
    std::array<uint64_t, BANKS> of_bank{};
    different(words);
    for (const uintptr_t word : words) ++of_bank[word % BANKS];
    return *std::max_element(of_bank.begin(), of_bank.end());
}

// Whether lanes whose numbers differ by this bit have one address.
bool are_same(const Request& request, unsigned bit) {
    std::array<uintptr_t, WARP> of{};
    for (unsigned i = 0; i < request.lanes; ++i) of[request.lane[i]] = request.at[i];
    for (unsigned i = 0; i < request.lanes; ++i) {
        const uintptr_t other = of[request.lane[i] ^ bit];
        if (other != 0 && other != request.at[i]) return false;
    }
    return true;
}

void finish(Site& site, const Request& request) {
    ++site.requests;
    if (!site.is_shared) {
        std::vector<uintptr_t> words = pieces(request, std::min(WORD, request.size), 0, WARP);
        std::vector<uintptr_t> sectors = pieces(request, SECTOR, 0, WARP);
        const uint64_t bytes = different(words) * std::min(WORD, request.size);
        site.taken += different(sectors);
        site.least += (bytes + SECTOR - 1) / SECTOR;
        return;
    }
    const unsigned apart = WARP * WORD / std::max(WORD, std::min(request.size, 16u));
    const bool is_paired = !site.is_store && apart < WARP && (are_same(request, 1) || are_same(request, 2));
    const unsigned together = is_paired ? 2 * apart : apart;
    for (unsigned first = 0; first < WARP; first += together) {
        const std::vector<uintptr_t> words = pieces(request, WORD, first, first + together);
        site.taken += turns(words);
        site.least += !words.empty();
    }
}

}  // namespace

void traffic_launch_begins(const char* kernel, unsigned blocks, unsigned threads) {
    now = &kernels[kernel];
    ++now->launches;
    now->blocks += blocks;
    now->threads += uint64_t(blocks) * threads;
    std::fill(std::begin(recent), std::end(recent), std::decay_t<decltype(recent[0])>{});
}

void traffic_count(const Access& access, unsigned thread) {
    Site& site = site_of(access);
    std::vector<Request>& requests = site.pending[thread / WARP];
    if (std::all_of(site.pending.begin(), site.pending.end(), [](const auto& each) { return each.empty(); }))
        touched.push_back(&site);
    const unsigned turn = site.made[thread]++;
    if (requests.size() <= turn) requests.resize(turn + 1);
    Request& request = requests[turn];
    request.at[request.lanes] = access.at;
    request.lane[request.lanes++] = static_cast<unsigned char>(thread % WARP);
    request.size = access.size;
}

void traffic_barrier() {
    for (Site* const site : touched) {
        for (std::vector<Request>& requests : site->pending) {
            for (const Request& request : requests) finish(*site, request);
            requests.clear();
        }
        site->made.fill(0);
    }
    touched.clear();
}

void traffic_launch_ends(uint64_t products) {
    now->products += products;
    now->read += bytes_read_once();
    now->written += bytes_written_once();
}

}  // namespace watch

extern "C" void standin_traffic_reset() {
    watch::touched.clear();  // by a launch that failed
    watch::kernels.clear();
}

extern "C" const char* standin_traffic() {
    static std::string text;
    text.clear();
    const auto add = [](auto... numbers) { ((text += "," + std::to_string(numbers)), ...); };
    for (const auto& [kernel, counted] : watch::kernels) {
        text += "launch," + kernel;
        add(counted.launches, counted.blocks, counted.threads, counted.products, counted.read, counted.written);
        for (const auto& [code, site] : counted.sites) {
            text +=
                "\nsite," + kernel + (site.is_shared ? ",shared" : ",global") + (site.is_store ? ",store" : ",load");
            add(code, site.requests, site.taken, site.least);
        }
        text += "\n";
    }
    return text.c_str();
}
