// The operations by name, and as Python functions. One call's arguments are read in call.h.
#include <Python.h>

#include <stdexcept>
#include <unordered_map>

#include "call.h"

namespace efl {
namespace {

using OpsByName = std::unordered_map<std::string, const Op*>;

OpsByName by_name() {
    OpsByName found;
    for (const auto* ops : {
#define EFL_FAMILY(name) &name##_ops,
#include "families.h"
#undef EFL_FAMILY
         })
        for (const Op& op : *ops) found[op.name] = &op;
    return found;
}

// The interpreter runs other threads meanwhile.
struct Released {
    PyThreadState* const state = PyEval_SaveThread();
    ~Released() { PyEval_RestoreThread(state); }
};

void run(const Op& op, PyObject* args, PyObject* named) {
    const Checked checked = make_call(op, args, named);
    efl_status status;
    {
        const Released released;
        status = checked.call();
    }
    checked.raise_unless_ok(status);
}

// What Python calls: `self` is a capsule of the operation. No exception may leave it.
PyObject* run_from_python(PyObject* self, PyObject* args, PyObject* named) {
    try {
        run(*static_cast<const Op*>(PyCapsule_GetPointer(self, nullptr)), args, named);
        Py_RETURN_NONE;
    } catch (...) {
        set_error();
    }
    return nullptr;
}

}  // namespace

const Op& find(const std::string& name) {
    static const OpsByName ops = by_name();
    const auto found = ops.find(name);
    if (found == ops.end())
        throw std::invalid_argument("operation '" + name + "'; expected one of edgefl.kernels.table.TABLE");
    return *found->second;
}

Checked make_call(const Op& op, PyObject* args, PyObject* named) {
    Args reader(op.name, args, named);
    Call call = op.make(reader);
    reader.end();
    return {.op = op.name, .call = std::move(call), .ids = reader.ids_read()};
}

// Functions of pybind11 take 0.2 us more a call. The method lives as long as the process: functions may outlive the
// module.
PyObject* function(const std::string& name, const std::string& signature, const std::string& documentation) {
    const Op& op = find(name);
    const auto* const about =
        new std::string(name + signature + "\n--\n\n" + documentation);  // as inspect and help() read it
    auto* const method = new PyMethodDef{
        .ml_name = op.name,
        .ml_meth = reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(&run_from_python)),
        .ml_flags = METH_VARARGS | METH_KEYWORDS,
        .ml_doc = about->c_str(),
    };
    PyObject* const self = PyCapsule_New(const_cast<Op*>(&op), nullptr, nullptr);
    PyObject* const module = PyUnicode_FromString("edgefl._core");
    PyObject* const made = self && module ? PyCFunction_NewEx(method, self, module) : nullptr;
    Py_XDECREF(self);
    Py_XDECREF(module);
    return made;
}

}  // namespace efl
