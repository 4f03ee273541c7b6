// The words of hopper_dmma.cuh, and those of hopper.cuh that hand registers over, in plain C++.
#pragma once
#include "hopper_emulated.hpp"

inline void read_two(double& first, double& second, unsigned int shared) {
    __builtin_memcpy(&first, emulated::at_address(shared), sizeof first);
    __builtin_memcpy(&second, emulated::at_address(shared + sizeof first), sizeof second);
}
inline void write_two(unsigned int shared, double first, double second) {
    __builtin_memcpy(emulated::at_address(shared), &first, sizeof first);
    __builtin_memcpy(emulated::at_address(shared + sizeof first), &second, sizeof second);
}
template <int REGISTERS>
void give_registers() {}
template <int REGISTERS>
void take_registers() {}
