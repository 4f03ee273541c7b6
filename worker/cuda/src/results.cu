// Copies results of kernels to page-locked memory of the host. The driver's own copy would wait in line: one engine
// does all copies to the host, in order, and a product of 256 MiB occupies it for 5 ms.
typedef long long Index;
typedef unsigned long long Word;

constexpr int THREADS = 256;

// Both begin at whole words; `bytes` need not be whole ones.
extern "C" __global__ void __launch_bounds__(THREADS)
    copy_results(const Word* __restrict__ source, Word* to, Index bytes) {
    const Index first = static_cast<Index>(blockIdx.x) * THREADS + threadIdx.x, words = bytes / 8;
    for (Index word = first; word < words; word += static_cast<Index>(gridDim.x) * THREADS)
        to[word] = source[word];
    const Index rest = words * 8 + first;
    if (rest < bytes) reinterpret_cast<unsigned char*>(to)[rest] = reinterpret_cast<const unsigned char*>(source)[rest];
}
