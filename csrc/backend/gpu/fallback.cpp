#include "backend/gpu/fallback.h"

#include "backend/gpu/families.h"
#include "backend/gpu/profile.h"

namespace fb::gpu {

namespace {

// Host memory has the same alignment as the device's, modulo this, so that every dtype stays aligned.
constexpr int64_t grain = 16;

}  // namespace

void Mirror::note(const Tensor& t) {
    if (t.device().type == DeviceType::CPU || !has_values(t)) return;
    device_ = t.device();
    if (t.numel() == 0 && !whole_) return;
    int64_t low = t.offset(), high = t.offset();
    for (int64_t d = 0; d < t.dim(); d++) {
        int64_t reach = (t.shape()[d] - 1) * t.strides()[d];
        (reach < 0 ? low : high) += reach;
    }
    low = low * t.itemsize() / grain * grain;
    high = (high + 1) * t.itemsize();
    if (whole_) {
        low = 0;
        high = static_cast<int64_t>(t.storage().bytes());
    }
    for (Part& part : parts_) {
        if (part.storage != &t.storage()) continue;
        part.low = std::min(part.low, low);
        part.high = std::max(part.high, high);
        return;
    }
    parts_.push_back({&t.storage(), low, high, {}});
}

void Mirror::fetch() {
    if (!device_) return;
    count_fallback(*device_);
    int stream = current_stream(*device_);
    for (Part& part : parts_) {
        auto bytes = static_cast<size_t>(part.high - part.low);
        part.host = make_ref<Storage>(bytes, cpu_device);
        driver(*device_).download(stream, part.host->data(), static_cast<char*>(part.storage->data()) + part.low,
                                  bytes);
    }
}

Tensor Mirror::on_host(const Tensor& t) const {
    if (t.device().type == DeviceType::CPU) return t;
    if (t.numel() == 0 && !whole_) {
        // Only the shape matters.
        Tensor nothing = empty(t.shape(), t.dtype(), cpu_device);
        return make_view(nothing.storage_ref(), t.dtype(), t.shape(), t.strides(), 0);
    }
    for (const Part& part : parts_) {
        if (part.storage != &t.storage()) continue;
        return make_view(part.host, t.dtype(), t.shape(), t.strides(), t.offset() - part.low / t.itemsize());
    }
    fail_state("a tensor that was not announced");
}

Tensor Mirror::on_device(const Tensor& t) const {
    if (!device_ || t.device() == *device_) return t;
    Tensor result = empty_like(t, t.dtype(), *device_);
    copy(result, t);
    return result;
}

void Mirror::give_back() {
    for (const Part& part : parts_) {
        DeviceScope scope(*device_, current_stream(*device_), ProfileEvent::Copy, "Memcpy HtoD",
                          static_cast<size_t>(part.high - part.low));
        driver(*device_).upload(current_stream(*device_), static_cast<char*>(part.storage->data()) + part.low,
                                part.host->data(), static_cast<size_t>(part.high - part.low));
    }
}

}  // namespace fb::gpu
