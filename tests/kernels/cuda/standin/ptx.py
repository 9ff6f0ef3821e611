"""PTX as C++ for the emulation, so that what nvcc or NVRTC made of the kernels is run, and not their sources.

Each instruction is a call of a function of ptx.h by its name, and each kernel is a body that the stand-in launches.
Only a GPU can show what a driver then makes of it. An instruction becomes `put(register, op_NAME<TYPES>(operands))`:
`mul.wide.s32 %rd1, %r2, 4` becomes `put(rd1_, op_mul_wide<s32>(r2_, 4))`. `_statement` tells apart loads and stores,
branches, calls and moves of several registers. Source: PTX ISA 9.0.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

TYPES = {"pred", "tf32", *(f"{kind}{bits}" for kind in "bsuf" for bits in (8, 16, 32, 64))}
_SPACES = {"global": "GLOBAL", "shared": "SHARED", "local": "LOCAL"}
_REGISTER = {"pred": "pred", "f32": "f32", "f64": "f64", "b16": "b16", "b32": "b32", "b64": "b64"}
_KERNEL = re.compile(r"\.visible \.entry (\w+)\(\s*(.*?)\s*\)\s*(.*?)\{", re.DOTALL)
_FUNCTION = re.compile(r"\.func\s*\(([^()]*)\)\s*(\w+)\s*\(([^()]*)\)\s*\{")
_PARAMETER = re.compile(r"\.param (?:\.align (\d+) )?\.[busf](\d+) (\w+)(?:\[(\d+)\])?")
_ARRAY = re.compile(r"\.(local|shared) (?:\.align (\d+) )?\.[busf](\d+)\s+([\w$]+)(?:\[(\d+)\])?$")
_GUARD = re.compile(r"@(!?)%(\w+)\s+")


def translated(source: str) -> str:
    """A C++ file with all kernels of this PTX, and the lines of their sources if it has them (-lineinfo). Raises
    ValueError with a statement that is not understood.
    """
    source = re.sub(r"//[^\n]*", "", source)
    for number, name in re.findall(r'\.file\s+(\d+) "([^"]+)"', source):
        source = re.sub(rf"\.loc\s+{number} (\d+) [^\n]*", rf'#line \1 "{name}";', source)
    parts = ['#include "ptx.h"', "using namespace ptx;"]
    parts += [_function(*match.groups(), _body(source, match.end())) for match in _FUNCTION.finditer(source)]
    parts += [_kernel(*match.groups(), _body(source, match.end())) for match in _KERNEL.finditer(source)]
    return "\n".join(parts) + "\n"


def _body(source: str, first: int) -> str:
    """Return what stands between the brace that opens before `first` and the brace that closes it."""
    depth, at = 1, first
    while depth:
        depth += {"{": 1, "}": -1}.get(source[at], 0)
        at += 1
    return source[first : at - 1]


def _kernel(name: str, parameters: str, directives: str, body: str) -> str:
    match = _PARAMETER.fullmatch(parameters)
    threads = re.search(r"\.maxntid (\d+), 1, 1", directives)
    if not match or not threads:
        raise ValueError(f"kernel {name}({parameters}) {directives}; expected one parameter and .maxntid")
    shared, lines = _lines(body)
    opening = f"static void {name}_body(const void* given) {{"
    return "\n".join(
        [
            opening,
            f"const char* const {match[3]} = static_cast<const char*>(given);",
            f"shared_size = {shared};",
            *lines,
            "}",
            f'static emulate::Kernel {name}_kernel("{name}", {threads[1]}, {_size(match[2], match[4])}, {name}_body);',
        ]
    )


def _function(result: str, name: str, parameters: str, body: str) -> str:
    """Return a function. Its parameters and its result are bytes, as in PTX."""
    names = [match[3] for match in _PARAMETER.finditer(f"{result}, {parameters}")]
    lines = _lines(body)[1]
    return "\n".join([f"static void {name}({', '.join(f'char* {each}' for each in names)}) {{", *lines, "}"])


def _size(bits: str, count: str | None) -> int:
    return int(bits) // 8 * int(count or 1)


def _lines(body: str) -> tuple[int, list[str]]:
    """Bytes of shared memory, and what stands for each statement."""
    shared, lines, place = 0, [], []
    for statement in _statements(body):
        if statement.startswith("#line"):
            place = [statement]
            continue
        lines += place
        array = _ARRAY.match(statement)
        if array and array[1] == "shared":
            shared += -shared % int(array[2] or 1)
            lines.append(f"constexpr u32 {array[4]} = {shared};")
            shared += _size(array[3], array[5])
        elif array:
            lines.append(f"alignas({array[2]}) char {array[4]}[{_size(array[3], array[5])}];")
        else:
            lines.append(_declaration(statement) or _guarded(statement))
    return shared, lines


def _statements(body: str) -> Iterator[str]:
    """Yield each statement without its semicolon, each label with its colon, and each brace of a scope by itself."""
    at = 0
    while match := re.compile(r"\s*(?:([{}])|(\$[\w$]+:)|([^;]+);)").match(body, at):
        brace, label, statement = match.groups()
        yield brace or label or " ".join(statement.split())
        at = match.end()
    if body[at:].strip():
        raise ValueError(f"{body[at:].strip()[:80]!r}; expected a statement of PTX")


def _declaration(statement: str) -> str:
    """Return the declaration of registers, of a call's parameters, of a scope or of a label, or "" for other
    statements.
    """
    if statement in "{}":
        return statement
    if statement.endswith(":"):
        return f"{_label(statement[:-1])}: ;"
    if match := re.fullmatch(r"\.reg \.(\w+) %?(\w+)(?:<(\d+)>)?", statement):
        kind, name, count = match.groups()
        names = [f"{name}{i}_" for i in range(int(count))] if count else [f"{name}_"]
        return f"{_REGISTER[kind]} {', '.join(names)};"
    if match := _PARAMETER.fullmatch(statement):
        return f"alignas({match[1] or 8}) char {match[3]}[{_size(match[2], match[4])}];"
    return ";" if statement.startswith(".pragma") else ""


def _guarded(statement: str) -> str:
    if guard := _GUARD.match(statement):
        return f"if ({guard[1]}{guard[2]}_) {{ {_statement(statement[guard.end() :])} }}"
    return _statement(statement)


def _statement(statement: str) -> str:
    mnemonic, _, rest = statement.partition(" ")
    name, *modifiers = mnemonic.split(".")
    operands = _operands(rest)
    if name == "bra":
        return f"goto {_label(operands[0])};"
    if name == "ret":
        return "return;"
    if name == "call":
        (result,), function, passed = _group(operands[0]), operands[1], _group(operands[2])
        return f"{function}({', '.join([result, *passed])});"
    if name in ("ld", "st"):
        return _transfer(name, modifiers, operands)
    if name == "mma":
        return _product(operands)
    if name == "mov" and "{" in rest:
        return _several(modifiers[-1], operands)
    return _call(name, modifiers, operands)


def _operands(rest: str) -> list[str]:
    """Split at the commas that are in no bracket."""
    found = re.findall(r"(?:\{[^}]*\}|\([^)]*\)|\[[^]]*\]|[^,\s])+", rest)
    return [each.strip() for each in found]


def _group(operand: str) -> list[str]:
    return [each.strip() for each in operand.strip("{}()").split(",")]


def _label(name: str) -> str:
    return name.lstrip("$")


def _value(operand: str) -> str:
    """An operand as C++: a register, a number, a name of shared or local memory, a thread's place."""
    if match := re.fullmatch(r"%(n?)(tid|ctaid)\.([xyz])", operand):
        kind = {"tid": "threadIdx", "ctaid": "blockIdx", "ntid": "blockDim", "nctaid": "gridDim"}
        return f"u32({kind[match[1] + match[2]]}.{match[3]})"
    if match := re.fullmatch(r"0([fd])([0-9A-F]+)", operand):
        return f"{'float' if match[1] == 'f' else 'double'}_of(0x{match[2]}ull)"
    if re.fullmatch(r"-?\d+", operand):
        return f"s64({operand}ull)" if not operand.startswith("-") else f"-s64({operand[1:]}ull)"
    return f"{operand[1:]}_" if operand.startswith("%") else operand


def _call(name: str, modifiers: list[str], operands: list[str]) -> str:
    called = "_".join(["op", name, *(each for each in modifiers if each not in TYPES and each != "uni")])
    types = ", ".join(each for each in modifiers if each in TYPES)
    if not types:  # a barrier
        return f"{called}({', '.join(map(_value, operands))});"
    return f"put({_value(operands[0])}, {called}<{types}>({', '.join(map(_value, operands[1:]))}));"


def _several(kind: str, operands: list[str]) -> str:
    """Return a move between two registers and one whole, mov.b64 {low, high}, whole, or the other way round."""
    parts = _group(operands[0] if operands[0].startswith("{") else operands[1])
    width = int(kind[1:]) // len(parts)
    if operands[0].startswith("{"):
        whole = _value(operands[1])
        each = [f"put({_value(part)}, b{width}(as<{kind}>({whole}) >> {i * width}));" for i, part in enumerate(parts)]
        return f"{{ {' '.join(each)} }}"
    shifted = " | ".join(f"{kind}(as<b{width}>({_value(part)})) << {i * width}" for i, part in enumerate(parts))
    return f"put({_value(operands[0])}, {kind}({shifted}));"


def _address(operand: str) -> str:
    base, _, offset = operand.strip("[]").partition("+")
    return f"{_value(base)} + ({offset or 0})"


def _transfer(name: str, modifiers: list[str], operands: list[str]) -> str:
    """Return a load or store of arguments or of memory, of one value or of several side by side."""
    kind = modifiers[-1]
    pointed, values = (operands[1], operands[0]) if name == "ld" else operands
    if modifiers[0] == "param":
        put = f"put({_value(values)}, load_param<{kind}>({_address(pointed)}));"
        return put if name == "ld" else f"store_param<{kind}>({_address(pointed)}, {_value(values)});"
    unknown = set(modifiers[:-1]) - {*_SPACES, "v2", "v4"}
    if unknown:
        raise ValueError(f"{name}.{'.'.join(modifiers)}; expected a space and a width")
    space = _SPACES.get(modifiers[0], "GENERIC")
    all_values = [_value(each) for each in _group(values)]
    if name == "ld":
        stored = " ".join(f"put({each}, found.of[{i}]);" for i, each in enumerate(all_values))
        return f"{{ const auto found = load<{space}, {kind}, {len(all_values)}>({_address(pointed)}); {stored} }}"
    given = ", ".join(f"as<{kind}>({each})" for each in all_values)
    return f"store<{space}>({_address(pointed)}, Vector<{kind}, {len(all_values)}>{{{{{given}}}}});"


def _product(operands: list[str]) -> str:
    """mma.m16n8k8 of .tf32."""
    to, left, right, total = ([_value(each) for each in _group(operand)] for operand in operands)
    stored = " ".join(f"put({each}, made.of[{i}]);" for i, each in enumerate(to))
    given = ", ".join(f"{{{', '.join(each)}}}" for each in (left, right, total))
    return f"{{ const auto made = multiply<b32>({given}); {stored} }}"
