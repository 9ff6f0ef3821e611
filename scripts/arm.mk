# Cross-builds the two libraries for aarch64, ARMv8.0 and glibc 2.17, by zig's wheel: objects are kept, so that what did
# not change is not compiled again. Run in the repository's root: make -f scripts/arm.mk ROOT=... OUT=...
# What a wheel is built with is setup.py; the flags here are its flags.
PYTHON ?= python3
OBJECTS ?= build/arm
OUT ?= build/arm_out
GENERATED := build/generated
$(shell $(PYTHON) csrc/generate.py $(GENERATED))
CROSS := $(PYTHON) -m ziglang c++ -target aarch64-linux-gnu.2.17 -mcpu=baseline
FLAGS := -std=c++2a -g0 -pthread -fvisibility=hidden -Wall -Wextra -Wno-for-loop-analysis -O3 -ffp-contract=off \
    -fno-math-errno -fPIC -DNDEBUG -MMD -I$(GENERATED) -Icsrc
BINDING = -O2 -I$(shell $(PYTHON) -c 'import pybind11; print(pybind11.get_include())') \
    -isystem $(ROOT)/usr/include/python3.11 -isystem $(ROOT)/usr/include
CORE := $(OUT)/_core.cpython-311-aarch64-linux-gnu.so
LIBRARY_OBJECTS := $(patsubst %.cc,$(OBJECTS)/%.o,$(wildcard csrc/api/*.cc csrc/core/*.cc csrc/isa/*.cc \
    $(GENERATED)/api_*.cc))
BINDING_OBJECTS := $(patsubst %.cc,$(OBJECTS)/%.o,csrc/python.cc $(wildcard csrc/python/*.cc \
    $(GENERATED)/binding_*.cc))

all: $(OUT)/libedgefl.so $(CORE)

$(OUT)/libedgefl.so: $(LIBRARY_OBJECTS)
	@mkdir -p $(@D)
	$(CROSS) -shared -pthread -Wl,-s -Wl,-soname,libedgefl.so -o $@ $^

$(CORE): $(BINDING_OBJECTS) $(OUT)/libedgefl.so
	$(CROSS) -shared -pthread -Wl,-s '-Wl,-rpath,$$ORIGIN' -o $@ $(BINDING_OBJECTS) -L$(OUT) -ledgefl

$(BINDING_OBJECTS): FLAGS += $(BINDING)
$(OBJECTS)/%.o: %.cc
	@mkdir -p $(@D)
	$(CROSS) $(FLAGS) -c $< -o $@

-include $(LIBRARY_OBJECTS:.o=.d) $(BINDING_OBJECTS:.o=.d)
