// The builders in the table of models.h; each file holds one net or one family of nets.
#pragma once

#include "models/models.h"

namespace tessera::models {

ir::Graph build_lenet5(const BuildOptions&);
ir::Graph build_lenet_300_100(const BuildOptions&);
ir::Graph build_lenet5_caffe(const BuildOptions&);
ir::Graph build_resnet18(const BuildOptions&);
ir::Graph build_resnet50(const BuildOptions&);
ir::Graph build_mobilenet_v2(const BuildOptions&);
ir::Graph build_mobilenet_v3_small(const BuildOptions&);
ir::Graph build_efficientnet_b0(const BuildOptions&);
ir::Graph build_vgg16(const BuildOptions&);
ir::Graph build_unet2d(const BuildOptions&);
ir::Graph build_unet3d(const BuildOptions&);
ir::Graph build_ssd(const BuildOptions&);
ir::Graph build_bert_base(const BuildOptions&);
ir::Graph build_bert_mini(const BuildOptions&);
ir::Graph build_vit_b_16(const BuildOptions&);
ir::Graph build_gpt2(const BuildOptions&);
ir::Graph build_lstm(const BuildOptions&);
ir::Graph build_dlrm(const BuildOptions&);
ir::Graph build_mlp(const BuildOptions&);
ir::Graph build_cnn_digits(const BuildOptions&);
ir::Graph build_conv1d(const BuildOptions&);
ir::Graph build_gru_classifier(const BuildOptions&);
ir::Graph build_lstm_classifier(const BuildOptions&);
ir::Graph build_resnet8(const BuildOptions&);
ir::Graph build_resnet18_cifar(const BuildOptions&);
ir::Graph build_unet_small(const BuildOptions&);
ir::Graph build_transformer_small(const BuildOptions&);
ir::Graph build_masked_lm(const BuildOptions&);
ir::Graph build_dlrm_small(const BuildOptions&);

}  // namespace tessera::models
