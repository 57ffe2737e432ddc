// The builders behind the table, one file each (or one a family).
#pragma once

#include "models/models.h"

namespace tessera::models {

ir::Graph build_lenet5(const ModelOptions&);
ir::Graph build_lenet_300_100(const ModelOptions&);
ir::Graph build_lenet5_caffe(const ModelOptions&);
ir::Graph build_resnet18(const ModelOptions&);
ir::Graph build_resnet50(const ModelOptions&);
ir::Graph build_mobilenet_v2(const ModelOptions&);
ir::Graph build_mobilenet_v3_small(const ModelOptions&);
ir::Graph build_efficientnet_b0(const ModelOptions&);
ir::Graph build_vgg16(const ModelOptions&);
ir::Graph build_unet2d(const ModelOptions&);
ir::Graph build_unet3d(const ModelOptions&);
ir::Graph build_ssd(const ModelOptions&);
ir::Graph build_bert_base(const ModelOptions&);
ir::Graph build_bert_mini(const ModelOptions&);
ir::Graph build_vit_b_16(const ModelOptions&);
ir::Graph build_gpt2(const ModelOptions&);
ir::Graph build_lstm(const ModelOptions&);
ir::Graph build_dlrm(const ModelOptions&);
ir::Graph build_mlp(const ModelOptions&);
ir::Graph build_cnn_digits(const ModelOptions&);
ir::Graph build_conv1d(const ModelOptions&);
ir::Graph build_gru_classifier(const ModelOptions&);
ir::Graph build_lstm_classifier(const ModelOptions&);
ir::Graph build_resnet8(const ModelOptions&);
ir::Graph build_resnet18_cifar(const ModelOptions&);
ir::Graph build_unet_small(const ModelOptions&);
ir::Graph build_transformer_small(const ModelOptions&);
ir::Graph build_masked_lm(const ModelOptions&);
ir::Graph build_dlrm_small(const ModelOptions&);

}  // namespace tessera::models
