// Shared by optimizer steps: parameters with their gradients and state as rows for the device's functions.
#pragma once
#include <cmath>

#include "device/optimizer.h"
#include "ops/table/common.h"
#include "ops/table/gradient.h"

namespace fb::optim {

using namespace device;

using Columns = std::initializer_list<const std::vector<Tensor>*>;

// The rows of one call, and copies of tensors whose layout or dtype the functions do not accept.
class Rows {
  public:
    explicit Rows(size_t n) { rows_.reserve(n); }

    // Collects row i of all lists.
    OptimizerRow& add(Columns columns, size_t i) {
        OptimizerRow& row = rows_.emplace_back();
        const Tensor& p = (**columns.begin())[i];
        check(is_floating(p.dtype()), "parameter ", i, " has dtype ", p.dtype(),
              "; expected a real floating-point one");
        row.numel = p.numel();
        int n = 0;
        bool flat = is_dense(p);
        auto alike = [&](const Tensor& t) {
            return t.dtype() == p.dtype() && (t.strides() == p.strides() || (t.is_contiguous() && p.is_contiguous()));
        };
        for (const std::vector<Tensor>* column : columns) {
            const Tensor& t = (*column)[i];
            check(t.shape() == p.shape(), "parameter ", i, " has shape ", p.shape(), ", but its ",
                  n == 1 ? "gradient" : "state", " has shape ", t.shape());
            if (n != 1) flat &= alike(t);
            // a gradient of higher precision is used directly
            else if (is_half(p.dtype())) flat &= t.dtype() == p.dtype();
            n++;
        }
        int k = 0;
        for (const std::vector<Tensor>* column : columns) {
            const Tensor& t = (*column)[i];
            bool written = k != 1;
            if (written) t.will_write();
            Tensor& used = row.columns[k++];
            if (!flat) {
                used = contiguous(to_dtype(t, compute_dtype(p.dtype())));
            } else if (alike(t)) {
                used = t;
            } else {
                used = empty_like(p, p.dtype());
                copy_into(used, t);
            }
            if (written && !used.is_same(t)) copies_.push_back({t, used});
        }
        return row;
    }

    const OptimizerRows& all() const { return rows_; }
    Device device() const { return rows_.empty() ? Device{} : rows_[0].columns[0].device(); }
    void store() const {
        for (const Copy& copy : copies_) copy_into(copy.given, copy.used);
    }

  private:
    struct Copy {
        Tensor given, used;  // the caller's tensor, and the one passed to the primitives
    };
    OptimizerRows rows_;
    std::vector<Copy> copies_;
};

inline void check_lengths(Columns columns) {
    size_t n = (*columns.begin())->size();
    for (const std::vector<Tensor>* column : columns)
        check(column->size() == n, "lists differ in length: ", n, " parameters and ", column->size(), " of another");
}

inline double count_step(const Tensor& step) {
    check(step.numel() == 1, "a step count must have one element, got shape ", step.shape());
    double t = item(step).re + 1;
    step.will_write();
    fill(step, Scalar(t));
    return t;
}

// Calls one of the optional functions, then copies results back.
template <class Step>
void run(void (*OptimizerSteps::*function)(const OptimizerRows&, const Step&), const Rows& rows, const Step& step) {
    Device device = rows.device();
    auto call = device::on<OptimizerSteps>(device).*function;
    if (!call) device::fail_absent(device);
    call(rows.all(), step);
    rows.store();
}

}  // namespace fb::optim
