// Dropout, from words of a counter-based stream. Contracts: csrc/edgefl.h.
#pragma once
#include "portable.cuh"
