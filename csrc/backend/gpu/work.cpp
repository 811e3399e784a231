#include "backend/gpu/work.h"

#include <bit>
#include <cstring>
#include <mutex>
#include <unordered_map>

#include "backend/gpu/sim/sim.h"

namespace fb::gpu {
namespace {

constexpr int64_t most_narrow = int64_t(1) << 30;  // sums of two still fit

struct Known {
    const Kernel* kernel = nullptr;
    std::string why;  // the reason, if there is no kernel
};
struct Programs {
    Mutex lock;
    std::unordered_map<std::string, Known> by_text[device_types];
    std::vector<Program> built;
};
Programs& programs() {
    static auto* all = new Programs;
    return *all;
}

}  // namespace

Work& Work::compute(DType d) {
    possible_ &= compute_type(d) != nullptr;
    typed_ = true;
    compute_ = d;
    return *this;
}

Work& Work::tensor(const std::string& name, const Tensor& t) { return t.defined() ? tensor(name, t, t.raw()) : *this; }
Work& Work::tensor(const std::string& name, const Tensor& t, char* at) {
    const char* type = stored_type(t.dtype());
    if (!type || t.device().type != device_.type) {
        possible_ = false;
        return *this;
    }
    int64_t reach = 0;
    for (int64_t d = 0; d < t.dim(); d++) reach += std::abs(t.strides()[d]) * (t.shape()[d] - 1);
    wide_ |= reach >= most_narrow;
    types_.push_back(type);
    names_.push_back(name);
    text_ += "#define LOAD_" + name + "(i) " + loaded(t.dtype(), name + "[i]") + "\n";
    DType from = typed_ ? compute_ : compute_dtype(t.dtype());
    text_ += "#define STORE_" + name + "(i, v) " + name + "[i] = " + converted(from, t.dtype(), "v") + "\n";
    addresses_.push_back(at);
    kept_.push_back(t);
    return *this;
}

Work& Work::number(const std::string& name, int64_t value) {
    fields_.push_back({Field::Type::Number, name, static_cast<int64_t>(values_.size()), 0});
    values_.push_back(value);
    wide_ |= value >= most_narrow || value <= -most_narrow;
    return *this;
}
Work& Work::numbers(const std::string& name, const int64_t* values, int64_t count) {
    int64_t first = static_cast<int64_t>(values_.size());
    fields_.push_back({Field::Type::Number, name, first, std::max<int64_t>(count, 1)});
    if (count == 0) values_.push_back(0);
    for (int64_t i = 0; i < count; i++) {
        values_.push_back(values[i]);
        wide_ |= values[i] >= most_narrow || values[i] <= -most_narrow;
    }
    return *this;
}
Work& Work::word(const std::string& name, uint64_t value) {
    fields_.push_back({Field::Type::Word, name, static_cast<int64_t>(values_.size()), 0});
    values_.push_back(static_cast<int64_t>(value));
    return *this;
}
Work& Work::real(const std::string& name, double value, DType type) {
    bool single = compute_dtype(type) == DType::F32;
    fields_.push_back(
        {single ? Field::Type::Single : Field::Type::Double, name, static_cast<int64_t>(values_.size()), 0});
    values_.push_back(std::bit_cast<int64_t>(value));
    return *this;
}
Work& Work::define(const std::string& name, const std::string& value) {
    text_ += "#define " + name + " " + value + "\n";
    return *this;
}
Work& Work::text(const std::string& text) {
    text_ += text;
    return *this;
}

bool Work::run(const std::string& body, int64_t items) {
    if (!possible_ || !uses_kernels()) return false;
    if (items == 0) return true;
    number("items", items);
    // The members of Params in order, each aligned to its size.
    size_t end = 0, largest = 4;
    std::vector<char> arguments(16 * (values_.size() + 1));
    auto pack = [&](auto value) {
        end = (end + sizeof value - 1) / sizeof value * sizeof value;
        std::memcpy(arguments.data() + end, &value, sizeof value);
        end += sizeof value;
        largest = std::max(largest, sizeof value);
    };
    std::string params = "typedef struct {";
    for (const Field& field : fields_) {
        static constexpr const char* types[] = {" px ", " u64 ", " f32 ", " f64 "};
        params += types[static_cast<int>(field.type)] + field.name;
        if (field.count) params.append("[").append(std::to_string(field.count)).append("]");
        params += ";";
        for (int64_t i = 0; i < std::max<int64_t>(field.count, 1); i++) {
            int64_t value = values_[field.first + i];
            if (field.type == Field::Type::Single) pack(static_cast<float>(std::bit_cast<double>(value)));
            else if (field.type == Field::Type::Number && !wide_) pack(static_cast<int32_t>(value));
            else pack(value);
        }
    }
    end = (end + largest - 1) / largest * largest;  // the compiler's sizeof
    // The key has all that the program is made of.
    std::string text = wide_ ? "typedef i64 ix;\ntypedef i64 px;\n#define DIVIDE(a, b) ((a) / (b))\n"
                             : "typedef narrow_ix ix;\ntypedef i32 px;\n#define DIVIDE(a, b) ((ix)((u32)(a) / "
                               "(u32)(b)))\n";
    text += text_ + params + " } Params;\n" + functions_;
    std::string key = std::to_string(device_.index) + (typed_ ? name(compute_) : "") + std::to_string(size_) + text;
    for (size_t i = 0; i < names_.size(); i++) key += types_[i] + names_[i] + ",";
    key += body;
    Programs& all = programs();
    auto& of_device = all.by_text[static_cast<size_t>(device_.type)];
    const bool on_host = device_.type == DeviceType::CPU;
    Known found;
    bool known = false;
    {
        std::lock_guard guard(all.lock);
        if (auto it = of_device.find(key); it != of_device.end()) {
            found = it->second;
            known = true;
        }
    }
    if (!known) {
        Program program{std::string(common_words()) + (typed_ ? words_of(compute_) : "") + text, {}};
        KernelText own{"run_items", {}, "    const ix item = (ix)GID;\n" + body, size_, false};
        for (size_t i = 0; i < names_.size(); i++) own.pointers.push_back("GLOBAL " + types_[i] + "* " + names_[i]);
        program.kernels.push_back(std::move(own));
        program.fuses = fuses_;
        std::vector<const Kernel*> built = on_host ? build_on_host(program, found.why) : driver(device_).build(program);
        if (!built.empty()) found.kernel = built[0];
        else if (!on_host) found.why = driver(device_).why();
        std::lock_guard guard(all.lock);
        of_device[key] = found;
        all.built.push_back(std::move(program));
    }
    why_ = found.why;
    if (!found.kernel) return false;
    const Launch one{.kernel = found.kernel,
                     .items = items,
                     .pointers = addresses_.data(),
                     .params = arguments.data(),
                     .bytes = end,
                     .faults = fault_,
                     .a = fault_numbers_[0],
                     .b = fault_numbers_[1],
                     .codes = codes_};
    if (on_host) {
        launch_on_host(one);
        return true;
    }
    count_kernel();
    launch(device_, one);
    return true;
}

std::vector<std::string> built_sources(Dialect dialect) {
    std::lock_guard guard(programs().lock);
    std::vector<std::string> all;
    for (const Program& program : programs().built) all.push_back(assemble(program, dialect));
    return all;
}
std::vector<std::string> built_sources() {
    std::lock_guard guard(programs().lock);
    std::vector<std::string> all;
    for (const Program& program : programs().built) all.push_back(program.text + program.kernels[0].body);
    return all;
}

}  // namespace fb::gpu
