// Which threads and blocks meet at an address: a race is a store to what another thread of the block touches before the
// next barrier, or another block in the same launch. It is one in whatever order the emulation ran them.
//
// Memory is followed by words of four bytes, and for smaller accesses by bytes: a float that is stored over another's
// bytes is not seen.
#include "watch.h"

#include <cstdio>
#include <memory>
#include <unordered_map>

namespace watch {
namespace {

constexpr uintptr_t PAGE = 4096;
constexpr uint32_t SEVERAL = 1u << 31;  // blocks, since the one that is named with it
constexpr uint16_t MANY = 0xffff;       // threads

// Blocks and intervals between barriers are numbered over all launches, from 1 on.
struct Cell {
    uint32_t storing_block = 0, loading_block = 0;
    uint32_t storing_interval = 0, loading_interval = 0;
    uint16_t storing_thread = 0, loading_thread = 0;
};

struct Page {
    std::unique_ptr<Cell[]> words, bytes;
};

std::unordered_map<uintptr_t, Page> pages;
struct {
    uintptr_t number = 0;
    Page* page = nullptr;
} recent[256];

uint32_t first_block = 1, block = 0, interval = 0;
size_t loaded = 0, stored = 0;
std::string race;

Page& page_of(uintptr_t at) {
    const uintptr_t number = at / PAGE;
    auto& slot = recent[number % 256];
    if (slot.number != number) slot = {number, &pages[number]};
    return *slot.page;
}

Cell& cell(std::unique_ptr<Cell[]>& cells, uintptr_t place, uintptr_t count) {
    if (!cells) cells = std::make_unique<Cell[]>(count);
    return cells[place];
}

void tell(const Access& access, unsigned thread, const char* who) {
    if (!race.empty()) return;
    char text[200];
    std::snprintf(text, sizeof text, "race at code %#zx: thread %u %s %u bytes of %s memory, which %s", access.code,
                  thread, access.is_store ? "stores" : "loads", access.size,
                  access.space == Space::SHARED ? "shared" : "device", who);
    race = text;
}

bool is_of_launch(uint32_t number) { return (number & ~SEVERAL) >= first_block; }

// Of a block that is not this one; each has shared memory of its own, which here lies in one place.
bool is_other(uint32_t number, const Access& access) {
    return access.space == Space::GLOBAL && is_of_launch(number) && number != block;
}

bool is_others(uint32_t when, uint16_t who, unsigned thread) { return when == interval && who != thread; }

void load(Cell& cell, const Access& access, unsigned thread, unsigned size) {
    if (is_other(cell.storing_block, access)) tell(access, thread, "another block has stored");
    if (is_others(cell.storing_interval, cell.storing_thread, thread))
        tell(access, thread, "another thread has stored since the last barrier");
    if (!is_of_launch(cell.loading_block) && !is_of_launch(cell.storing_block)) loaded += size;
    cell.loading_block = is_other(cell.loading_block, access) ? first_block | SEVERAL : block;
    cell.loading_thread = is_others(cell.loading_interval, cell.loading_thread, thread) ? MANY : uint16_t(thread);
    cell.loading_interval = interval;
}

void store(Cell& cell, const Access& access, unsigned thread, unsigned size) {
    if (is_other(cell.storing_block, access)) tell(access, thread, "another block has stored");
    if (is_other(cell.loading_block, access)) tell(access, thread, "another block has loaded");
    if (is_others(cell.storing_interval, cell.storing_thread, thread))
        tell(access, thread, "another thread has stored since the last barrier");
    if (is_others(cell.loading_interval, cell.loading_thread, thread))
        tell(access, thread, "another thread has loaded since the last barrier");
    if (!is_of_launch(cell.storing_block)) stored += size;
    cell.storing_block = block;
    cell.storing_thread = uint16_t(thread);
    cell.storing_interval = interval;
}

}  // namespace

void races_launch_begins() {
    first_block = block + 1;
    loaded = stored = 0;
    race.clear();
}

void races_block_begins() {
    ++block;
    ++interval;
}

void races_barrier() { ++interval; }

void races_follow(const Access& access, unsigned thread) {
    const unsigned step = access.size < 4 ? 1 : 4;
    for (uintptr_t at = access.at; at < access.at + access.size; at += step) {
        Page& page = page_of(at);
        Cell& here = step == 4 ? cell(page.words, at % PAGE / 4, PAGE / 4) : cell(page.bytes, at % PAGE, PAGE);
        (access.is_store ? store : load)(here, access, thread, access.space == Space::GLOBAL ? step : 0);
    }
}

const std::string& first_race() { return race; }
size_t bytes_read_once() { return loaded; }
size_t bytes_written_once() { return stored; }

}  // namespace watch
