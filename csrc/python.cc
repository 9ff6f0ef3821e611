// edgefl._core: the kernels as Python functions, and Program, a recorded list of calls. Checks are in python/; no maths
// here. What the functions are called and say of themselves comes from edgefl/kernels/table.py.
#include <atomic>
#include <cstring>

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include "python/call.h"

namespace py = pybind11;

namespace efl {
namespace {

#ifdef __clang__
constexpr const char* COMPILER = "clang " __clang_version__;
#else
constexpr const char* COMPILER = "gcc " __VERSION__;
#endif

// Calls checked once and run many times without the interpreter. Holds every array it reads or writes.
class Program {
public:
    void append(const std::string& name, const py::args& args, const py::kwargs& named) {
        if (running_.load()) throw std::runtime_error("append to a program that is running; expected an idle one");
        steps_.push_back(make_call(find(name), args.ptr(), named.ptr()));
        kept_.append(all_of(args, named));
    }

    void replace(size_t position, const std::string& name, const py::args& args, const py::kwargs& named) {
        if (running_.load()) throw std::runtime_error("replace in a program that is running; expected an idle one");
        if (position >= steps_.size())
            throw py::value_error("position=" + std::to_string(position) + "; expected 0 to " +
                                  std::to_string(py::ssize_t(steps_.size()) - 1));
        steps_[position] = make_call(find(name), args.ptr(), named.ptr());
        kept_[position] = all_of(args, named);
    }

    size_t size() const { return steps_.size(); }

    void run() {
        Failure failure;
        {
            const Running running(running_);
            py::gil_scoped_release released;
            failure = run_steps();
        }
        if (failure.step) failure.step->raise_unless_ok(failure.status);
    }

    void run_batches(const py::args& args, const py::kwargs& named) {
        Args reader("run_batches", args.ptr(), named.ptr());
        const View index = reader.typed("index_buffer", Access::out, Type::int32);
        const View batches = reader.typed("batches", Access::in, Type::int32);
        reader.end();
        reader.expect_dims(batches, 2, 2);
        reader.expect_shape(index, {batches.shape[1]});
        Failure failure;
        {
            const Running running(running_);
            py::gil_scoped_release released;
            for (efl_int64 s = 0; s < batches.shape[0] && !failure.step; ++s) {
                std::memcpy(index.data, batches.as<efl_int32>() + s * index.size(),
                            size_t(index.size()) * sizeof(efl_int32));
                failure = run_steps();
            }
        }
        if (failure.step) failure.step->raise_unless_ok(failure.status);
    }

private:
    struct Failure {
        const Checked* step = nullptr;
        efl_status status = EFL_OK;
    };

    struct Running {
        explicit Running(std::atomic<int>& count) : count_(count) { ++count_; }
        ~Running() { --count_; }
        std::atomic<int>& count_;
    };

    // What keeps the arrays of a call alive.
    static py::object all_of(const py::args& args, const py::kwargs& named) {
        if (named.empty()) return args;
        return py::make_tuple(args, named);
    }

    // The first call that fails, if any.
    Failure run_steps() const {
        for (const Checked& step : steps_)
            if (efl_status status = step.call()) return Failure{&step, status};
        return {};
    }

    std::vector<Checked> steps_;
    py::list kept_;
    std::atomic<int> running_{0};
};

}  // namespace
}  // namespace efl

PYBIND11_MODULE(_core, m) {
    using namespace efl;
    m.doc() = "The native kernels. Use edgefl.kernels, whose table.py says what each is given.";
    m.def("function", [](const std::string& name, const std::string& signature, const std::string& documentation) {
        return py::reinterpret_steal<py::object>(function(name, signature, documentation));
    });

    m.def("isa", [] { return std::string(efl_isa()); });
    m.def("has_isa", [](const std::string& name) { return efl_has_isa(name.c_str()) != 0; });
    m.def("cap_isa", [](const std::string& name) {
        if (efl_cap_isa(name.c_str()) != EFL_OK)
            throw py::value_error("cap_isa: name has value '" + name +
                                  "'; expected an instruction set that this CPU and build have");
    });
    m.def("code_products", [] { return std::string(efl_code_products()); });
    m.def("cap_code_products", [](const std::string& name) {
        if (efl_cap_code_products(name.c_str()) != EFL_OK)
            throw py::value_error("cap_code_products: name has value '" + name +
                                  "'; expected instructions that this build has");
    });
    m.def("threads", [] { return efl_threads(); });
    m.def("set_threads", [](int threads) {
        py::gil_scoped_release released;
        if (efl_set_threads(threads) == EFL_OK) return;
        py::gil_scoped_acquire held;
        throw py::value_error("set_threads: threads has value " + std::to_string(threads) + "; expected 1 to 1024");
    });
    m.def("preferred_cores", [](const std::string& sys, std::vector<efl_int32> cores) {
        cores.resize(size_t(efl_preferred_cores(sys.c_str(), cores.data(), efl_int32(cores.size()))));
        return cores;
    });
    m.def("core_id", [] { return efl_core_id(nullptr, 0); });
    m.def("core_id", [](const std::string& sys, int core) { return efl_core_id(sys.c_str(), core); });
    m.def("core_name", [](efl_uint32 id) { return efl_core_name(id); });
    m.def("in_order", [] { return efl_in_order() != 0; });
    m.def("set_in_order", [](bool in_order) { efl_set_in_order(in_order); });
    m.def("scratch_bytes", [] { return efl_scratch_bytes(); });
    m.def("scratch_needed", [](const std::string& name, const py::args& args, const py::kwargs& named) {
        const Checked checked = make_call(find(name), args.ptr(), named.ptr());
        efl_count_scratch(1);
        const efl_status status = checked.call();
        const efl_int64 needed = efl_count_scratch(0);
        if (status != EFL_NO_MEMORY) checked.raise_unless_ok(status);
        return needed;
    });
    m.def("compiler", [] { return std::string(COMPILER); });

    py::class_<Program>(m, "Program")
        .def(py::init<>())
        .def("append", &Program::append)
        .def("replace", &Program::replace)
        .def("run", &Program::run)
        .def("run_batches", &Program::run_batches)
        .def("__len__", &Program::size);
}
