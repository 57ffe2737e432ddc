#include "ops/values/image_decoder.h"

namespace tessera::ops {
namespace {

void infer_image_decoder(InferContext& context) {
  const ir::Dims* dims = context.dims(0);
  context.check(dims == nullptr || dims->size() == 1, "encoded_stream has rank {}, expected 1",
                dims ? dims->size() : 0);
  const std::string& format = context.text("pixel_format");
  context.check(format == "RGB" || format == "BGR" || format == "Grayscale",
                "pixel_format '{}' is none of RGB, BGR, Grayscale", format);
  context.set_output(0, DType::u8, {ir::Dim(), ir::Dim(), format == "Grayscale" ? 1 : 3});
}

}  // namespace

// [bytes] → [height, width, 3 or 1]. A stream that cannot be decoded gives an empty image [0, 0, …], as ONNX requires;
// one that is too large is an error.
const OpDef image_decoder{
    .name = "ImageDecoder",
    .since = 20,
    .inputs = {{"encoded_stream", {DType::u8}}},
    .outputs = {{"image", {DType::u8}}},
    .attributes = {{"pixel_format", ir::AttributeKind::text, ir::Attribute(std::string("RGB"))}},
    .infer = infer_image_decoder,
};

}  // namespace tessera::ops
