// The check's pass over one matrix: sizes from the command line, matrix and vector from stdin, the three results out.
#include <emulated.hpp>

#include SOURCE

int main(int count, char** words) {
    std::vector<long long> number;
    for (int i = 1; i < count; ++i)
        number.push_back(atoll(words[i]));
    const long long* n = number.data();
    const long long rows = n[2], columns = n[3], ld = n[4], stride = n[5], vector_stride = n[6], batch = n[8];
    Buffer<Element> matrix(n[9]);
    Buffer<Factor> vector(n[10]);
    Buffer<Sum> products(batch * rows);
    Buffer<double> squares(batch * rows);
    Buffer<unsigned long long> bad(batch * rows);
    matrix.read();
    vector.read();
    memset(products.elements, 0, products.bytes);
    memset(squares.elements, 0, squares.bytes);
    memset(bad.elements, 0, bad.bytes);
    const Dim3 grid = {static_cast<unsigned int>(n[0]), 1, static_cast<unsigned int>(n[1])};
    launch(grid, {THREADS, 1, 1}, [&] {
        sums(matrix.elements, rows, columns, ld, stride, vector.elements, vector_stride, static_cast<int>(n[7]),
             products.elements, squares.elements, bad.elements, batch);
    });
    products.write();
    squares.write();
    bad.write();
}
