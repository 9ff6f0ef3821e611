// A stand-in for libcuda: the functions of the driver API that edgefl calls, over the host's memory. Kernels run when
// they are launched, emulated (emulate.h). Every call is checked and written down; any can be made to fail.
//
//     standin_log       names of the calls since standin_reset, with sizes, one a line
//     standin_fail      the nth call (from 1) of a function returns this status
//     standin_live      allocations, streams, modules and graphs that have not been given back
//     standin_current   contexts that have been made current and not put away
//     standin_order     in which order threads run, see emulate.h; EDGEFL_STANDIN_ORDER until it is called
//
// A call without a current context fails, whichever thread it is of: the lock is to let one in at a time.
// The device's compute capability is 9.0, or EDGEFL_STANDIN_CAPABILITY tenths.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "emulate.h"

namespace {

using Status = int;
using Address = unsigned long long;
using Blocks = std::map<Address, size_t>;  // bytes of each
enum { OK = 0, INVALID_VALUE = 1, OUT_OF_MEMORY = 2, NOT_INITIALIZED = 3, NO_DEVICE = 100, INVALID_IMAGE = 200,
       INVALID_CONTEXT = 201, NOT_FOUND = 500, ALREADY_REGISTERED = 712,
       NOT_REGISTERED = 713, LAUNCH_FAILED = 719, CAPTURE_UNSUPPORTED = 900 };

struct Launch {
    const emulate::Kernel* kernel;
    emulate::Dim grid, block;
    std::vector<char> arguments;
};

struct Graph {
    std::vector<Launch> launches;
};

struct Upload {
    Address to;
    const void* from;
    size_t size;
};

struct Stand {
    std::string log;
    std::map<std::string, int> calls;
    std::string failing;
    int failing_call = 0;
    Status failure = OK;
    Blocks blocks, pinned;
    std::set<const void*> loaded;  // kernels, which a stream that is capturing cannot load
    std::vector<Upload> uploads;
    int contexts = 0, current = 0, modules = 0, streams = 0, graphs = 0, events = 0;
    bool is_initialised = false, is_capturing = false, is_integrated = false;
    Graph captured;
    size_t room = size_t(1) << 34;
};

Stand stand;

int capability() {
    const char* const asked = std::getenv("EDGEFL_STANDIN_CAPABILITY");
    return asked ? std::atoi(asked) : 90;
}

// Writes the call down; what it shall return if it is the one to fail.
Status called(const char* name, const std::string& what = "") {
    stand.log += std::string(name) + (what.empty() ? "" : " " + what) + "\n";
    const int count = ++stand.calls[name];
    if (stand.failing == name && stand.failing_call == count) return stand.failure;
    return OK;
}

Status ready(const char* name, const std::string& what = "") {
    if (const Status failed = called(name, what)) return failed;
    if (!stand.is_initialised) return NOT_INITIALIZED;
    return stand.contexts > 0 && stand.current > 0 ? OK : INVALID_CONTEXT;
}

// Reads what is to be uploaded, as late as the driver may.
void flush() {
    for (const Upload& each : stand.uploads) std::memcpy(reinterpret_cast<void*>(each.to), each.from, each.size);
    stand.uploads.clear();
}

// The block in which all of these bytes are; null if there is none.
const Blocks::value_type* block_of(const Blocks& blocks, Address first, size_t size) {
    const auto after = blocks.upper_bound(first);
    if (after == blocks.begin()) return nullptr;
    const Blocks::value_type& found = *std::prev(after);
    return first + size <= found.first + found.second ? &found : nullptr;
}

Status allocate(void** found, size_t size) {
    size_t held = 0;
    for (const auto& block : stand.blocks) held += block.second;
    if (size == 0) return INVALID_VALUE;
    if (held + size > stand.room) return OUT_OF_MEMORY;
    if (posix_memalign(found, 256, size)) return OUT_OF_MEMORY;  // as a device's blocks lie
    std::memset(*found, 0xff, size);
    stand.blocks[Address(*found)] = size;
    return OK;
}

// The block where a kernel's access was last: the next one is often there too.
Address last_first = 0, last_end = 0;

Status release(Address first) {
    flush();
    last_end = 0;
    if (!stand.blocks.erase(first)) return INVALID_VALUE;
    std::free(reinterpret_cast<void*>(first));
    return OK;
}

Status start(const Launch& launch) {
    flush();
    if (emulate::run(*launch.kernel, launch.grid, launch.block, launch.arguments.data())) return OK;
    std::fprintf(stderr, "stand-in: %s\n", emulate::complaint());
    return LAUNCH_FAILED;
}

}  // namespace

bool emulate::is_held(const void* place, size_t size) {
    const Address first = Address(place);
    if (first >= last_first && first + size <= last_end) return true;
    const Blocks::value_type* found = block_of(stand.blocks, first, size);
    if (!found) found = block_of(stand.pinned, first, size);
    if (found) last_first = found->first, last_end = found->first + found->second;
    return found;
}

#define TELL(...) if (const Status failed = __VA_ARGS__) return failed

extern "C" {

const char* standin_log() { return stand.log.c_str(); }
void standin_fail(const char* name, int nth, int status) {
    stand.failing = name;
    stand.failing_call = nth;
    stand.failure = status;
}
void standin_reset() {
    stand.log.clear();
    stand.calls.clear();
    stand.failing.clear();
}
int standin_live() {
    return int(stand.blocks.size() + stand.pinned.size()) + stand.contexts + stand.modules + stand.streams +
           stand.graphs + stand.events;
}
int standin_current() { return stand.current; }
void standin_order(int order) { emulate::order = order; }
void standin_room(size_t bytes) { stand.room = bytes; }
void standin_integrated(int on) { stand.is_integrated = on; }
// Most threads of a block and bytes of arguments of a kernel; 0 if there is none of this name.
int standin_kernel(const char* name, int* threads, size_t* arguments) {
    const emulate::Kernel* kernel = emulate::find(name);
    if (!kernel) return 0;
    *threads = kernel->threads;
    *arguments = kernel->arguments;
    return 1;
}

Status cuInit(unsigned) {
    TELL(called("cuInit"));
    stand.is_initialised = true;
    return OK;
}
Status cuDriverGetVersion(int* version) {
    *version = 13000;
    return called("cuDriverGetVersion");
}
Status cuGetErrorName(Status status, const char** text) {
    *text = status == OUT_OF_MEMORY ? "CUDA_ERROR_OUT_OF_MEMORY"
            : status == LAUNCH_FAILED ? "CUDA_ERROR_LAUNCH_FAILED" : "CUDA_ERROR_OF_THE_STAND_IN";
    return OK;
}
Status cuDeviceGetCount(int* count) {
    *count = 1;
    return called("cuDeviceGetCount");
}
Status cuDeviceGet(int* device, int number) {
    *device = number;
    TELL(called("cuDeviceGet"));
    return number == 0 ? OK : NO_DEVICE;
}
Status cuDeviceGetName(char* name, int size, int) {
    std::snprintf(name, size_t(size), "stand-in");
    return called("cuDeviceGetName");
}
Status cuDeviceGetAttribute(int* value, int attribute, int) {
    TELL(called("cuDeviceGetAttribute", std::to_string(attribute)));
    switch (attribute) {
        case 16: *value = 4; return OK;                      // multiprocessors
        case 18: *value = stand.is_integrated; return OK;    // one memory with the host
        case 19: *value = 1; return OK;                      // can map host memory
        case 75: *value = capability() / 10; return OK;
        case 76: *value = capability() % 10; return OK;
        default: return INVALID_VALUE;
    }
}
Status cuDevicePrimaryCtxRetain(void** context, int) {
    TELL(called("cuDevicePrimaryCtxRetain"));
    *context = &stand;
    ++stand.contexts;
    return OK;
}
Status cuDevicePrimaryCtxRelease_v2(int) {
    TELL(called("cuDevicePrimaryCtxRelease"));
    --stand.contexts;
    return OK;
}
Status cuCtxPushCurrent_v2(void*) {
    TELL(called("cuCtxPushCurrent"));
    ++stand.current;
    return OK;
}
Status cuCtxPopCurrent_v2(void** context) {
    const bool was_current = stand.current > 0;
    if (was_current) --stand.current;  // whatever comes of it
    *context = &stand;
    TELL(called("cuCtxPopCurrent"));
    return was_current ? OK : INVALID_CONTEXT;
}
Status cuMemGetInfo_v2(size_t* available, size_t* total) {
    *available = *total = stand.room;
    return ready("cuMemGetInfo");
}
Status cuMemAlloc_v2(Address* found, size_t size) {
    TELL(ready("cuMemAlloc", std::to_string(size)));
    return allocate(reinterpret_cast<void**>(found), size);
}
Status cuMemFree_v2(Address first) {
    TELL(ready("cuMemFree"));
    return release(first);
}
Status cuMemHostRegister_v2(void* first, size_t size, unsigned) {
    TELL(ready("cuMemHostRegister", std::to_string(size)));
    for (const auto& each : stand.pinned)
        if (each.first < Address(first) + size && Address(first) < each.first + each.second) return ALREADY_REGISTERED;
    stand.pinned[Address(first)] = size;
    return OK;
}
Status cuMemHostUnregister(void* first) {
    TELL(ready("cuMemHostUnregister"));
    last_end = 0;
    return stand.pinned.erase(Address(first)) ? OK : NOT_REGISTERED;
}
Status cuMemHostGetDevicePointer_v2(Address* found, void* first, unsigned) {
    TELL(ready("cuMemHostGetDevicePointer"));
    *found = Address(first);
    return stand.pinned.count(Address(first)) ? OK : INVALID_VALUE;
}
Status cuMemcpyHtoDAsync_v2(Address to, const void* from, size_t size, void*) {
    TELL(ready("cuMemcpyHtoDAsync", std::to_string(size)));
    if (stand.is_capturing || !block_of(stand.blocks, to, size)) return INVALID_VALUE;
    stand.uploads.push_back({to, from, size});
    return OK;
}
Status cuMemcpyDtoHAsync_v2(void* to, Address from, size_t size, void*) {
    TELL(ready("cuMemcpyDtoHAsync", std::to_string(size)));
    if (stand.is_capturing || !block_of(stand.blocks, from, size)) return INVALID_VALUE;
    flush();
    std::memcpy(to, reinterpret_cast<void*>(from), size);
    return OK;
}
Status cuModuleLoadData(void** module, const void* image) {
    TELL(ready("cuModuleLoadData"));
    if (!image) return INVALID_IMAGE;
    *module = &stand;
    ++stand.modules;
    return OK;
}
Status cuModuleUnload(void*) {
    TELL(ready("cuModuleUnload"));
    --stand.modules;
    return OK;
}
Status cuModuleGetFunction(void** function, void*, const char* name) {
    TELL(ready("cuModuleGetFunction", name));
    const emulate::Kernel* kernel = emulate::find(name);
    if (!kernel) return NOT_FOUND;
    *function = const_cast<emulate::Kernel*>(kernel);
    return OK;
}
Status cuFuncGetAttribute(int* value, int attribute, void* function) {
    TELL(ready("cuFuncGetAttribute"));
    if (attribute != 0) return INVALID_VALUE;
    stand.loaded.insert(function);
    *value = static_cast<emulate::Kernel*>(function)->threads;
    return OK;
}
Status cuFuncGetParamInfo(void* function, size_t at, size_t* offset, size_t* size) {
    TELL(ready("cuFuncGetParamInfo"));
    if (at != 0) return INVALID_VALUE;
    *offset = 0;
    *size = static_cast<emulate::Kernel*>(function)->arguments;
    return OK;
}
Status cuStreamCreate(void** stream, unsigned) {
    TELL(ready("cuStreamCreate"));
    *stream = &stand;
    ++stand.streams;
    return OK;
}
Status cuStreamDestroy_v2(void*) {
    TELL(ready("cuStreamDestroy"));
    --stand.streams;
    return OK;
}
Status cuStreamSynchronize(void*) {
    flush();
    return ready("cuStreamSynchronize");
}
Status cuStreamBeginCapture_v2(void*, int) {
    TELL(ready("cuStreamBeginCapture"));
    if (stand.is_capturing) return CAPTURE_UNSUPPORTED;
    stand.is_capturing = true;
    stand.captured = {};
    return OK;
}
Status cuStreamEndCapture(void*, void** graph) {
    const bool was_capturing = std::exchange(stand.is_capturing, false);  // whatever comes of it
    TELL(ready("cuStreamEndCapture"));
    if (!was_capturing) return CAPTURE_UNSUPPORTED;
    *graph = new Graph(stand.captured);
    ++stand.graphs;
    return OK;
}
Status cuGraphInstantiateWithFlags(void** made, void* graph, unsigned long long) {
    TELL(ready("cuGraphInstantiate"));
    *made = new Graph(*static_cast<Graph*>(graph));
    ++stand.graphs;
    return OK;
}
Status cuGraphLaunch(void* made, void*) {
    TELL(ready("cuGraphLaunch"));
    for (const Launch& launch : static_cast<Graph*>(made)->launches) TELL(start(launch));
    return OK;
}
Status cuGraphExecDestroy(void* made) {
    TELL(ready("cuGraphExecDestroy"));
    delete static_cast<Graph*>(made);
    --stand.graphs;
    return OK;
}
Status cuGraphDestroy(void* graph) {
    TELL(ready("cuGraphDestroy"));
    delete static_cast<Graph*>(graph);
    --stand.graphs;
    return OK;
}
Status cuEventCreate(void** event, unsigned) {
    TELL(ready("cuEventCreate"));
    *event = &stand;
    ++stand.events;
    return OK;
}
Status cuEventDestroy_v2(void*) {
    TELL(ready("cuEventDestroy"));
    --stand.events;
    return OK;
}
Status cuEventRecord(void*, void*) { return ready("cuEventRecord"); }
Status cuEventSynchronize(void*) { return ready("cuEventSynchronize"); }
Status cuEventElapsedTime(float* milliseconds, void*, void*) {
    *milliseconds = 1;
    return ready("cuEventElapsedTime");
}
Status cuLaunchKernel(void* function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                      unsigned shared, void*, void** arguments, void** extra) {
    const emulate::Kernel& kernel = *static_cast<const emulate::Kernel*>(function);
    TELL(ready("cuLaunchKernel", kernel.name));
    const bool fits = gx > 0 && gy > 0 && gz > 0 && gy < 65536 && gz < 65536 && bx > 0 && by > 0 && bz > 0;
    if (!fits || shared || extra || bx * by * bz > unsigned(kernel.threads)) return INVALID_VALUE;
    const char* const first = static_cast<const char*>(arguments[0]);
    const Launch launch{&kernel, {gx, gy, gz}, {bx, by, bz}, {first, first + kernel.arguments}};
    if (!stand.is_capturing) return stand.loaded.insert(function), start(launch);
    if (!stand.loaded.count(function)) return CAPTURE_UNSUPPORTED;
    stand.captured.launches.push_back(launch);
    return OK;
}

}  // extern "C"
