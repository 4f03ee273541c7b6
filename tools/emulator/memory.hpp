// One array of a kernel's arguments: matrices of rows, with gaps between them that nobody may touch.
#pragma once

namespace emulated {

struct MemoryLayout {  // in bytes
    long long offset;  // from an address that is a multiple of 16
    long long matrices, rows, row, pitch, stride;
    long long given;     // so many of the rows' bytes come from stdin; the others start as garbage
    long long returned;  // whether the rows go to stdout

    long long extent() const;
    bool is_vast() const { return extent() > 1LL << 30; }  // then only the rows' pages are there
};

class Memory {
public:
    explicit Memory(const MemoryLayout&);  // reads what is given
    Memory(const Memory&) = delete;
    Memory& operator=(const Memory&) = delete;
    ~Memory();

    unsigned char* address() const { return first; }
    void give_back();  // ends the program where a gap was written to

private:
    template <typename Visit>
    void for_each_row(Visit) const;  // address, bytes
    template <typename Visit>
    void for_each_gap(Visit) const;
    void close_gaps() const;
    void fill();

    MemoryLayout layout;
    unsigned char* first;
};

}  // namespace emulated
