// Concatenation, padding, upsampling, transposition, embeddings. Contracts: csrc/edgefl.h.
#pragma once
#include "portable.cuh"
