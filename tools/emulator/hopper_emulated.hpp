// The words of hopper.cuh that kernels on CUDA cores use, in plain C++.
#pragma once
#include "emulated.hpp"
//
#include "bulk.hpp"

#define __grid_constant__
#define DYNAMIC_TILES(name) DYNAMIC_SHARED(name)

using emulated::TensorMap;

inline unsigned int shared_address(const void* pointer) {
    return static_cast<unsigned int>(static_cast<const unsigned char*>(pointer) - emulated::dynamic_shared()) +
           emulated::FIRST_ADDRESS;
}

inline void init_barrier(unsigned int barrier, int arrivals) { emulated::begin_barrier(barrier, arrivals); }
inline void publish_barriers() {}
inline void arrive(unsigned int barrier) { emulated::come_to_barrier(barrier, 0); }
inline void arrive_expecting(unsigned int barrier, int bytes) { emulated::come_to_barrier(barrier, bytes); }
inline bool has_ended(unsigned int barrier, unsigned int parity, emulated::Place at = emulated::Place::here()) {
    if (emulated::phase_has_ended(barrier, parity)) return true;
    emulated::look_again(at);
    return false;
}

inline void load_box(unsigned int shared, const TensorMap& map, unsigned int barrier, int x, int y, int z) {
    emulated::begin_load(shared, map, barrier, x, y, z);
}
inline void store_box(unsigned int shared, const TensorMap& map, int x, int y, int z) {
    emulated::begin_store(shared, map, x, y, z);
}
inline void commit_stores() { emulated::end_store_group(); }
template <int PENDING>
void wait_stores_read() {
    emulated::complete_stores(PENDING);
}
inline void fence_for_copies() {}  // one thread runs at a time

inline float read_one(unsigned int shared) {
    float value;
    __builtin_memcpy(&value, emulated::at_address(shared), sizeof value);
    return value;
}
inline void write_one(unsigned int shared, float value) {
    __builtin_memcpy(emulated::at_address(shared), &value, sizeof value);
}
inline void read_four(float* to, unsigned int shared) {
    __builtin_memcpy(to, emulated::at_address(shared), 4 * sizeof(float));
}
inline void write_four(unsigned int shared, const float* from) {
    __builtin_memcpy(emulated::at_address(shared), from, 4 * sizeof(float));
}
