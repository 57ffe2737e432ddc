"""Nets as users of PyTorch write them, to be exported by both exporters and trained on both sides.

Each has its module, its data and what its configuration says beside the file: `frozen` names what has no gradient in
PyTorch, where the file does not say so. What is random in training (dropout, stochastic depth) is off.
"""
import dataclasses
import math

import torch
import torch.nn as nn
import torch.nn.functional as F


@dataclasses.dataclass
class Net:
    make: object  # returns the module
    data: tuple  # as in torch_nets.NETS; "lengths" as the last entry adds the input `lengths`
    frozen: dict = dataclasses.field(default_factory=dict)  # by exporter: what the file cannot say
    batch: int = 16
    exporters: tuple = ("torchscript", "dynamo")


class Function(nn.Module):
    """A function as a module, with parts of its own."""

    def __init__(self, function, **parts):
        super().__init__()
        self.function = function
        for name, part in parts.items():
            setattr(self, name, part)

    def forward(self, *inputs):
        return self.function(self, *inputs)


def torchvision_net(name, **options):

    def make():
        import torchvision
        return getattr(torchvision.models, name)(num_classes=10, **options)

    return make


def convnext():
    from torchvision.models.convnext import CNBlockConfig, ConvNeXt
    return ConvNeXt([CNBlockConfig(16, 32, 1), CNBlockConfig(32, None, 2)], stochastic_depth_prob=0.0, num_classes=10)


def efficientnet():
    import torchvision
    return torchvision.models.efficientnet_b0(num_classes=10, stochastic_depth_prob=0.0, dropout=0.0)


def densenet():
    from torchvision.models import DenseNet
    return DenseNet(growth_rate=8, block_config=(2, 2), num_init_features=16, num_classes=10)


def vision_transformer():
    from torchvision.models import VisionTransformer
    return VisionTransformer(image_size=32, patch_size=8, num_layers=2, num_heads=4, hidden_dim=32, mlp_dim=64,
                             num_classes=10)


def swin():
    from torchvision.models import SwinTransformer
    return SwinTransformer([2, 2], 16, [2, 2], [2, 4], [4, 4], stochastic_depth_prob=0.0, num_classes=10)


def last_of(self, x):
    return self.head(self.states(x)[0][:, -1])


def recurrent(kind, into=3, width=16, directions=1, **options):
    return Function(last_of, states=kind(into, width, batch_first=True, bidirectional=directions == 2, **options),
                    head=nn.Linear(directions * width, 10))


def packed(self, x, lengths):
    sequences = nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
    states = nn.utils.rnn.pad_packed_sequence(self.states(sequences)[0], batch_first=True)[0]
    return self.head(states.sum(1) / lengths[:, None])


def masked_mean(self, x, lengths):
    states = self.states(x)[0]
    mask = (torch.arange(x.shape[1])[None] < lengths[:, None]).to(states.dtype)[..., None]
    return self.head((states * mask).sum(1) / mask.sum(1))


class LearntState(nn.Module):

    def __init__(self):
        super().__init__()
        self.gru, self.head = nn.GRU(3, 16, batch_first=True), nn.Linear(16, 10)
        self.h0 = nn.Parameter(torch.zeros(1, 1, 16))

    def forward(self, x):
        return self.head(self.gru(x, self.h0.expand(-1, x.shape[0], -1).contiguous())[1][-1])


def group_norm():
    return nn.Sequential(nn.Conv2d(3, 16, 3, 1, 1), nn.GroupNorm(4, 16), nn.ReLU(), nn.Conv2d(16, 16, 3, 2, 1),
                         nn.GroupNorm(8, 16), nn.SiLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 10))


def plain_norms():
    return nn.Sequential(nn.Conv2d(3, 16, 3, 1, 1), nn.InstanceNorm2d(16), nn.ReLU(), nn.Conv2d(16, 16, 3, 2, 1),
                         nn.GroupNorm(4, 16, affine=False), nn.ReLU(), nn.Flatten(),
                         nn.Linear(4096, 32), nn.LayerNorm(32, elementwise_affine=False), nn.ReLU(), nn.Linear(32, 10))


class Sinusoids(nn.Module):
    """A transformer with the table of positions that the tutorial has, as a buffer."""

    def __init__(self, length=24, width=32):
        super().__init__()
        self.tokens = nn.Embedding(40, width)
        place = torch.arange(length)[:, None] * torch.exp(torch.arange(0, width, 2) * (-math.log(1e4) / width))
        table = torch.zeros(1, length, width)
        table[0, :, 0::2], table[0, :, 1::2] = torch.sin(place), torch.cos(place)
        self.register_buffer("pe", table)
        layer = nn.TransformerEncoderLayer(width, 4, 64, dropout=0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(width, 10)

    def forward(self, x):
        return self.head(self.encoder(self.tokens(x) * math.sqrt(32) + self.pe[:, :x.shape[1]]).mean(1))


class Block(nn.Module):

    def __init__(self, width, length):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.feed = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(approximate="tanh"),
                                  nn.Linear(4 * width, width))
        self.register_buffer("mask", torch.tril(torch.ones(length, length)).view(1, 1, length, length))

    def forward(self, x):
        n, t, c = x.shape
        q, k, v = (part.view(n, t, 4, c // 4).transpose(1, 2) for part in self.qkv(self.norm1(x)).split(c, 2))
        scores = (q @ k.transpose(-2, -1)) / math.sqrt(c // 4)
        scores = scores.masked_fill(self.mask[:, :, :t, :t] == 0, float("-inf"))
        x = x + self.out((scores.softmax(-1) @ v).transpose(1, 2).reshape(n, t, c))
        return x + self.feed(self.norm2(x))


class TiedGpt(nn.Module):
    """Token and output embeddings share their weight; the positions are an embedding of arange."""

    def __init__(self, vocabulary=40, length=24, width=32):
        super().__init__()
        self.tokens, self.places = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
        nn.init.normal_(self.tokens.weight, std=0.05)
        self.blocks = nn.ModuleList(Block(width, length) for _ in range(2))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)
        self.head.weight = self.tokens.weight

    def forward(self, x):
        y = self.tokens(x) + self.places(torch.arange(x.shape[1]))
        for block in self.blocks:
            y = block(y)
        return self.head(self.norm(y).mean(1))


def frozen_part():
    net = nn.Sequential(nn.Conv2d(3, 8, 3, 1, 1), nn.ReLU(), nn.Conv2d(8, 16, 3, 2, 1), nn.ReLU(),
                        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 10))
    for part in net[:3]:
        part.requires_grad_(False)
    return net


class Normalised(nn.Module):
    """Mean and deviation of the data as buffers, and a table that is only an attribute."""

    def __init__(self):
        super().__init__()
        self.register_buffer("data_mean", torch.tensor([0.4, 0.5, 0.6]).view(1, 3, 1, 1))
        self.register_buffer("data_std", torch.tensor([0.2, 0.3, 0.25]).view(1, 3, 1, 1), persistent=False)
        self.table = torch.linspace(0.5, 1.5, 8).view(1, 8, 1, 1)
        self.body = nn.Sequential(nn.Conv2d(3, 8, 3, 1, 1), nn.ReLU())
        self.head = nn.Linear(8, 10)

    def forward(self, x):
        return self.head((self.body((x - self.data_mean) / self.data_std) * self.table).mean((2, 3)))


class Scalars(nn.Module):
    """ReZero's factors and a temperature: parameters without dimensions."""

    def __init__(self):
        super().__init__()
        self.into, self.head = nn.Linear(64, 32), nn.Linear(32, 10)
        self.layers = nn.ModuleList(nn.Linear(32, 32) for _ in range(2))
        self.alphas = nn.ParameterList(nn.Parameter(torch.tensor(0.1 * (i + 1))) for i in range(2))
        self.temperature = nn.Parameter(torch.tensor(1.5))

    def forward(self, x):
        x = self.into(x)
        for layer, alpha in zip(self.layers, self.alphas):
            x = x + alpha * F.relu(layer(x))
        return self.head(x) * self.temperature.exp()


def shapes_of_parameters():
    return nn.Sequential(
        torch.nn.utils.parametrizations.weight_norm(nn.Conv2d(3, 8, 3, 1, 1)), nn.PReLU(8),
        nn.ConvTranspose2d(8, 8, 2, 2), nn.BatchNorm2d(8), nn.LeakyReLU(0.1), nn.AvgPool2d(2), nn.Flatten(),
        nn.Linear(8192, 10))


def batch_norm_mlp():
    return nn.Sequential(nn.Linear(64, 48), nn.BatchNorm1d(48), nn.ReLU(), nn.Dropout(0.0), nn.Linear(48, 48),
                         nn.BatchNorm1d(48, affine=False), nn.ReLU(), nn.Linear(48, 10))


class Bag(nn.Module):

    def __init__(self):
        super().__init__()
        self.bag, self.head = nn.EmbeddingBag(40, 16, mode="mean"), nn.Linear(16, 10)

    def forward(self, x):
        return self.head(F.gelu(self.bag(x)))


IMAGE, SERIES, TOKENS = ("image", (3, 32, 32)), ("image", (20, 3)), ("tokens", 24, 40)
LENGTHS = (*SERIES, "lengths")

NETS = {
    "resnet18": Net(torchvision_net("resnet18"), IMAGE, batch=8),
    "mobilenet": Net(torchvision_net("mobilenet_v3_small", dropout=0.0), ("image", (3, 64, 64)), batch=8),
    "shufflenet": Net(torchvision_net("shufflenet_v2_x0_5"), ("image", (3, 64, 64)), batch=8),
    "squeezenet": Net(torchvision_net("squeezenet1_1", dropout=0.0), IMAGE),
    "efficientnet": Net(efficientnet, IMAGE, batch=8),
    "densenet": Net(densenet, IMAGE),
    "convnext": Net(convnext, IMAGE),
    "vit": Net(vision_transformer, IMAGE),
    "swin": Net(swin, IMAGE),
    "lstm": Net(lambda: recurrent(nn.LSTM), SERIES),
    "bilstm": Net(lambda: recurrent(nn.LSTM, directions=2, num_layers=2), SERIES),
    "gru": Net(lambda: recurrent(nn.GRU, num_layers=2), SERIES),
    "rnn": Net(lambda: recurrent(nn.RNN, directions=2), SERIES),
    "lstm_packed": Net(lambda: Function(packed, states=nn.LSTM(3, 16, batch_first=True), head=nn.Linear(16, 10)),
                       LENGTHS, exporters=("torchscript", )),
    "gru_masked": Net(lambda: Function(masked_mean, states=nn.GRU(3, 16, batch_first=True), head=nn.Linear(16, 10)),
                      LENGTHS),
    "learnt_state": Net(LearntState, SERIES),
    "group_norm": Net(group_norm, IMAGE),
    "plain_norms": Net(plain_norms, IMAGE),
    "sinusoids": Net(Sinusoids, TOKENS, {"torchscript": ["pe"]}),
    "tied_gpt": Net(TiedGpt, TOKENS),
    "frozen_part": Net(frozen_part, IMAGE, {"torchscript": ["0.*", "2.*"], "dynamo": ["0.*", "2.*"]}),
    "normalised": Net(Normalised, IMAGE, {"torchscript": ["data_mean"]}),
    "scalars": Net(Scalars, ("image", (64, ))),
    "shapes": Net(shapes_of_parameters, IMAGE),
    "batch_norm_mlp": Net(batch_norm_mlp, ("image", (64, ))),
    # The newer exporter writes a loop that joins a sequence, whose length it computes.
    "bag": Net(Bag, TOKENS, exporters=("torchscript", )),
}
