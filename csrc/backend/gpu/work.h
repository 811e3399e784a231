// One launch of a kernel: its tensors and numbers, its text, and the number of items. The description declares the
// kernel's parameters, so text and arguments always agree. Programs are cached by their text: sizes are numbers, not
// text.
//
//     Work work(out.device());
//     work.compute(DType::F32).tensor("out", out).tensor("x", x).number("n", n);
//     work.run("STORE_out(item, LOAD_x(item) * (T)2);", n);
//
// On the CPU it runs as C++, at once.
// The text is the body of a function that is called for each `item`. A tensor `x` is a pointer to stored elements,
// LOAD_x(i) one of them as a value, STORE_x(i, value) writes it. Numbers are members of `g`, of the index type `ix`,
// which has 32 bits where all indices fit. DIVIDE(a, b) is the quotient of two that are not negative.
#pragma once
#include <string>

#include "backend/gpu/driver.h"
#include "backend/gpu/source.h"

namespace fb::gpu {

class Work {
  public:
    explicit Work(Device device) : device_(device) {}
    // Defines the type T and the functions of formulas.
    Work& compute(DType d);
    // Whether all tensors so far have dtypes and devices that kernels support.
    bool possible() const { return possible_; }
    // Elements from t's first one on; declares nothing if `t` is undefined.
    Work& tensor(const std::string& name, const Tensor& t);
    Work& tensor(const std::string& name, const Tensor& t, char* at);  // beginning at another address
    Work& number(const std::string& name, int64_t value);
    Work& numbers(const std::string& name, const int64_t* values, int64_t count);
    Work& word(const std::string& name, uint64_t value);            // u64
    Work& real(const std::string& name, double value, DType type);  // f32 or f64
    Work& real(const std::string& name, double value) { return real(name, value, compute_); }
    // Text before the kernel: constants, functions, types.
    Work& define(const std::string& name, const std::string& value);
    Work& define(const std::string& name, int64_t value) { return define(name, std::to_string(value)); }
    Work& text(const std::string& text);
    // Functions that may use Params; placed after its declaration.
    Work& functions(const std::string& text) {
        functions_ += text;
        return *this;
    }
    // The error of FAIL(0, index) in the text, with two numbers for the message. It is raised at the next wait.
    Work& on_fail(const Fault& fault, int64_t a, int64_t b) { return on_fail(&fault, 1 << 30, a, b); }
    // FAIL(code, index) means the fault with that number.
    Work& on_fail(const Fault* faults, int codes, int64_t a, int64_t b) {
        fault_ = faults;
        codes_ = codes;
        fault_numbers_[0] = a;
        fault_numbers_[1] = b;
        return *this;
    }
    // How many items there are in a group.
    Work& in_groups(int size) {
        size_ = size;
        return *this;
    }
    // Each item has much to do: on a processor it is a group by itself, and its inner loops become vectors.
    Work& large_items() {
        if (driver(device_).is_processor()) size_ = 1;
        return *this;
    }
    // The same if an item uses vectors explicitly (blocks.h); a * b + c may then be rounded once.
    Work& in_blocks() {
        size_ = 1;
        fuses_ = true;
        return *this;
    }
    // False, without doing anything, if kernels cannot be built; why() has the compiler's message.
    bool run(const std::string& body, int64_t items);
    const std::string& why() const { return why_; }

  private:
    struct Field {
        enum class Type { Number, Word, Single, Double } type;
        std::string name;
        int64_t first, count;  // range in values_; count 0: not an array
    };
    Device device_;
    DType compute_ = DType::F32;
    bool possible_ = true, typed_ = false, wide_ = false;
    std::string text_, functions_;
    std::vector<std::string> types_, names_;  // of the pointers
    std::vector<char*> addresses_;
    std::vector<Tensor> kept_;  // until the launch: memory freed before could be reused by the next table
    std::vector<Field> fields_;
    std::vector<int64_t> values_;
    const Fault* fault_ = nullptr;
    int64_t fault_numbers_[2] = {};
    int codes_ = 0;
    std::string why_;
    int size_ = 128;
    bool fuses_ = false;
};

// Every program that was built, without the head of a dialect: for tests.
std::vector<std::string> built_sources();
// The same as passed to a dialect's compiler.
std::vector<std::string> built_sources(Dialect dialect);

}  // namespace fb::gpu
