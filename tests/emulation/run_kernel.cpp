// One product by one kernel: sizes from the command line, A, B and C's first contents from stdin, C to stdout.
#include <emulated.hpp>

#include SOURCE

int main(int count, char** words) {
    std::vector<long long> number;
    for (int i = 1; i < count; ++i)
        number.push_back(atoll(words[i]));
    const long long* n = number.data();
    const Dim3 grid = {static_cast<unsigned int>(n[0]), 1, static_cast<unsigned int>(n[1])};
    const Dim3 block = {static_cast<unsigned int>(n[2]), static_cast<unsigned int>(n[3]), 1};
    Buffer<Element> a(n[4]), b(n[5]);
    Buffer<Product> c(n[6]);
    a.read();
    b.read();
    c.read();
    launch(grid, block, [&] {
        KERNEL(a.elements, b.elements, c.elements, n[7], n[8], n[9], n[10], n[11], n[12], n[13], n[14], n[15], n[16]);
    });
    c.write();
}
