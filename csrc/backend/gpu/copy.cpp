// Moving elements to, from and on an accelerator.
#include "backend/gpu/fallback.h"
#include "backend/gpu/families.h"
#include "backend/gpu/profile.h"
#include "tensor/layout.h"

namespace fb::gpu {
namespace {

bool on_host(const Tensor& t) { return t.device().type == DeviceType::CPU; }

bool same_layout(const Tensor& a, const Tensor& b) {
    if (a.dtype() != b.dtype() || a.shape() != b.shape() || !is_dense(a)) return false;
    for (int64_t d = 0; d < a.dim(); d++) {
        if (a.shape()[d] > 1 && a.strides()[d] != b.strides()[d]) return false;
    }
    return true;
}
size_t bytes_of(const Tensor& t) { return static_cast<size_t>(t.numel()) * static_cast<size_t>(t.itemsize()); }

const device::Moving& host() { return device::on<device::Moving>(cpu_device); }

void upload(const Tensor& to, const void* from) {
    int stream = current_stream(to.device());
    DeviceScope scope(to.device(), stream, ProfileEvent::Copy, "Memcpy HtoD", bytes_of(to));
    driver(to.device()).upload(stream, to.raw(), from, bytes_of(to));
}

void to_device(const Tensor& to, const Tensor& from) {
    if (same_layout(to, from)) return upload(to, from.raw());
    // Fills with one element; another layout or dtype is converted here.
    if (is_dense(to)) {
        Tensor laid = empty_strided(to.shape(), to.strides(), to.dtype(), cpu_device);
        host().copy(laid, from);
        return upload(to, laid.raw());
    }
    Tensor dense = empty(from.shape(), from.dtype(), to.device());
    to_device(dense, from);
    copy(to, dense);
}

void to_host(const Tensor& to, const Tensor& from) {
    int stream = current_stream(from.device());
    if (same_layout(to, from)) return driver(from.device()).download(stream, to.raw(), from.raw(), bytes_of(to));
    Tensor dense = from;
    if (!is_dense(from)) {
        dense = empty(from.shape(), from.dtype(), from.device());
        copy(dense, from);
    }
    Tensor here = empty_strided(dense.shape(), dense.strides(), dense.dtype(), cpu_device);
    driver(from.device()).download(stream, here.raw(), dense.raw(), bytes_of(here));
    host().copy(to, here);
}

}  // namespace

void copy(const Tensor& to, const Tensor& from) {
    if (to.numel() == 0) return;
    if (on_host(from)) return to_device(to, from);
    if (on_host(to)) return to_host(to, from);
    if (same_layout(to, from)) {
        count_kernel();
        DeviceScope scope(to.device(), current_stream(to.device()), ProfileEvent::Copy, "Memcpy DtoD", bytes_of(to));
        return driver(to.device()).copy(current_stream(to.device()), to.raw(), from.raw(), bytes_of(to));
    }
    if (run_copy(to, from)) return;
    run_on_host<void, const Tensor&, const Tensor&>(false, host().copy, to, from);
}

void fill(const Tensor& to, const char* element) {
    if (!to.numel()) return;
    count_kernel();
    DeviceScope scope(to.device(), current_stream(to.device()), ProfileEvent::Copy, "Memset", bytes_of(to));
    driver(to.device())
        .fill(current_stream(to.device()), to.raw(), element, static_cast<size_t>(to.itemsize()),
              static_cast<size_t>(to.numel()));
}

void write(const Tensor& to, const void* from) { upload(to, from); }

}  // namespace fb::gpu
