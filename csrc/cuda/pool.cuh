// Max and average pools. Contracts: csrc/edgefl.h.
#pragma once
#include "portable.cuh"
