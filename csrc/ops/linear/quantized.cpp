// Linear maps with quantized weights.
#include "ops/linear/quantized.h"

#include "ops/linear/linear.h"

namespace fb {

using device::QuantFormat;

static void check_scale(const char* what, const Tensor& t, const Dims& shape, DType dtype) {
    check(t.defined(), "this format needs ", what, " of shape ", shape);
    check(t.shape() == shape && t.dtype() == dtype, "expected ", what, " of shape ", shape, " and dtype ", dtype,
          ", got ", t.shape(), " and ", t.dtype());
}

device::QuantWeight quant_weight(const Args& a, int first) {
    const Tensor& data = a.tensor(first);
    QuantFormat format = device::quant_format_named(a.text(first + 3));
    const device::QuantInfo& kind = device::info(format);
    int64_t group = a.integer(first + 4), columns = a.integer(first + 5);
    bool separate = format == QuantFormat::Int8 || format == QuantFormat::Int4;
    check(data.dim() == 2, "expected a weight with two dims, got shape ", data.shape());
    DType bytes = format == QuantFormat::Int8 ? DType::I8 : DType::U8;
    check(data.dtype() == bytes, "expected a weight of ", bytes, " for ", kind.name, ", got ", data.dtype());
    check(columns >= 0 && columns <= int64_t(1) << 40 && columns % kind.block == 0, "rows of ", columns,
          " numbers are not whole blocks of ", kind.block, ", which ", kind.name, " has");
    int64_t row = format == QuantFormat::Int4 ? columns / 2 : columns / kind.block * kind.bytes;
    check(data.size(1) == row, "expected rows of ", row, " bytes for ", columns, " numbers of ", kind.name, ", got ",
          data.size(1));
    check(separate ? group == 32 || group == 64 || group == 128 || (group == 0 && format == QuantFormat::Int8)
                   : group == 0,
          "group ", group, " does not fit ", kind.name, "; expected ",
          separate ? "32, 64 or 128, or for int8 also 0, one scale per row" : "0");
    check(group == 0 || columns % group == 0, "rows of ", columns, " numbers are not whole groups of ", group);
    Tensor scale = a.tensor_or_none(first + 1), zero = a.tensor_or_none(first + 2);
    if (separate) {
        if (group) check_scale("scale", scale, {data.size(0), columns / group}, DType::BF16);
        else check_scale("scale", scale, {data.size(0)}, DType::F32);
        scale = contiguous(scale);
    } else check(!scale.defined(), kind.name, " has its scales among the integers; expected no other");
    if (format == QuantFormat::Int4) {
        check_scale("zero", zero, {data.size(0), columns / group}, DType::BF16);
        zero = contiguous(zero);
    } else check(!zero.defined(), "expected no zero points for ", kind.name);
    return {format, contiguous(data), scale, zero, columns, group};
}

OP("_nn.quantized_linear(Tensor input, Tensor weight, Tensor? scale, Tensor? zero, str format, int group, int columns, "
   "Tensor? bias=None, bool dynamic=False) -> Tensor",
   FUNCTION) {
    OpScope scope("quantized_linear");
    const Tensor& x = a.tensor(0);
    device::QuantWeight w = quant_weight(a, 1);
    check(x.dtype() == DType::F32 || x.dtype() == DType::BF16 || x.dtype() == DType::F16,
          "expected an input of float32, bfloat16 or float16, got ", x.dtype(), "; convert it with .to(dtype)");
    check(x.dim() >= 1 && x.shape().back() == w.columns, "input of shape ", x.shape(), " does not fit a weight of ",
          w.data.size(0), " rows of ", w.columns, " numbers");
    bool dynamic = a.flag(8);
    check(!dynamic || (w.format == QuantFormat::Int8 && w.group == 0 && w.columns <= 65536),
          "dynamic needs int8 with one scale per row and at most 65536 numbers in a row");
    Tensor bias = a.tensor_or_none(7);
    if (bias) {
        check(bias.dim() == 1 && bias.size(0) == w.data.size(0), "bias of shape ", bias.shape(),
              " does not fit a weight of ", w.data.size(0), " rows");
        check(is_floating(bias.dtype()), "expected a floating point bias, got ", bias.dtype());
        bias = contiguous(to_dtype(bias, DType::F32));
    }
    Tensor rows = contiguous(all_rows(x));
    Dims shape = x.shape();
    shape[shape.size() - 1] = w.data.size(0);
    Tensor out = empty({rows.size(0), w.data.size(0)}, x.dtype(), x.device());
    device::quantized(out).multiply(out, rows, w, bias, dynamic);
    return view(out, shape);
}

OP("_nn.dequantize(Tensor weight, Tensor? scale, Tensor? zero, str format, int group, int columns) -> Tensor",
   FUNCTION) {
    OpScope scope("dequantize");
    device::QuantWeight w = quant_weight(a, 0);
    Tensor out = empty({w.data.size(0), w.columns}, DType::F32, w.data.device());
    device::quantized(out).dequantize(out, w);
    return out;
}

}  // namespace fb
