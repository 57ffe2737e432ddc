"""The kinds of PyTorch modules that torch_exports.py exports: a name, how to make it, and inputs of three sizes."""

import torch
from torch import nn
from torch.nn import functional


class Function(nn.Module):
    """A function as a module, with parameters of its own where given."""

    def __init__(self, function, **parts):
        super().__init__()
        self.function = function
        for name, part in parts.items():
            setattr(self, name, part)

    def forward(self, *inputs):
        return self.function(self, *inputs)


class Scripted(nn.Module):
    """Control flow that depends on data: only scripting keeps it."""

    def forward(self, x):
        total = torch.zeros_like(x[0])
        for i in range(x.size(0)):
            if bool(x[i].sum() > 0):
                total = total + x[i]
            else:
                total = total * 0.5 - x[i]
        return total


class ScriptedWhile(nn.Module):
    def forward(self, x):
        steps = 0
        while bool(x.abs().max() > 1.0) and steps < 20:
            x = x * 0.5
            steps += 1
        return x, torch.tensor(steps)


class ScriptedList(nn.Module):
    def forward(self, x):
        parts = []
        for i in range(x.size(0)):
            parts.append(x[i] * float(i))
        return torch.stack(parts).sum(0)


def floats(*shape):
    return lambda n: (torch.randn(*(n if size == "n" else size for size in shape)),)


def normalised(x):
    return x / (x.norm(dim=-1, keepdim=True) + 1e-6)


def recurrent(module):
    return Function(lambda self, x: self.part(x)[0], part=module)


def complex_shapes(_, x):
    n, c = x.shape[0], x.shape[1]
    h, w = x.shape[2] // 2, x.shape[3]
    y = x[:, :, : h * 2].reshape(n, c, h, 2, w).permute(0, 3, 1, 2, 4).reshape(n * 2, c, h, w)
    return functional.interpolate(y, size=(h + 1, w * 2), mode="nearest") + torch.arange(w * 2, dtype=x.dtype)


def window_partition(_, x):
    n, h, w, c = x.shape
    pad = (4 - h % 4) % 4
    x = functional.pad(x, (0, 0, 0, 0, 0, pad))
    x = x.view(n, -1, 4, w // 4, 4, c).transpose(2, 3).reshape(-1, 16, c)
    return torch.roll(x, (1, -2), (1, 2))


def masked_attention(self, x):
    mask = torch.ones(x.shape[1], x.shape[1]).tril().bool()
    q, k, v = self.qkv(x).chunk(3, -1)
    scores = (q @ k.transpose(-1, -2)) / 4.0
    return torch.softmax(scores.masked_fill(~mask, float("-inf")), -1) @ v


def sdpa(self, x):
    q, k, v = (part.view(x.shape[0], -1, 2, 8).transpose(1, 2) for part in self.qkv(x).chunk(3, -1))
    return functional.scaled_dot_product_attention(q, k, v, is_causal=True)


def half_inside(self, x):
    return (self.part(x).half() * 0.5).float() + x.to(torch.bfloat16).float().sum()


def scatter(_, x):
    index = torch.arange(6).view(1, 6).expand(x.shape[0], 6) % 3
    y = torch.zeros(x.shape[0], 6).scatter(1, index, x) + torch.zeros(x.shape[0], 6).scatter_add(1, index, x)
    y[:, 1] = x[:, 2]
    return y.index_select(1, torch.tensor([0, 2, 1])) + torch.gather(x, 1, index)[:, :3]


def grid(self, x):
    theta = torch.tensor([[[0.8, 0.1, 0.1], [-0.1, 0.9, 0.0]]]).expand(x.shape[0], 2, 3)
    return functional.grid_sample(
        x, functional.affine_grid(theta, list(x.shape), align_corners=False), align_corners=False
    )


def reductions(_, x):
    return (
        x.mean(1),
        x.amax(2),
        x.std(2),
        x.logsumexp(1),
        x.prod(2),
        x.argmax(1),
        x.var(dim=1, unbiased=False),
        x.norm(p=1, dim=2),
    )


def arithmetic(_, x):
    y = x.abs() + 0.1
    return (
        y.log(),
        y.rsqrt(),
        x.floor(),
        x.ceil(),
        x.sign(),
        x.clamp(-0.5, 0.5),
        torch.erf(x),
        y.pow(1.7),
        x.exp().log1p(),
        x.expm1(),
        x.sin() * x.cos(),
        x.tanh().atan(),
        y.reciprocal(),
    )


def rare_arithmetic(_, x):
    y = x.abs() + 0.1
    return torch.remainder(x, 0.7), torch.fmod(x, 0.7), x.round(), torch.maximum(x, y * 0.3), torch.trunc(x), x.cosh()


def quantised(self, x):
    y = torch.fake_quantize_per_tensor_affine(x, 0.02, 3, 0, 255)
    weight = torch.fake_quantize_per_channel_affine(self.part.weight, self.scale, self.zero, 0, -128, 127)
    return functional.conv2d(y, weight, self.part.bias, padding=1).relu()


def masks(_, x):
    y = torch.where(x > 0, x, x * 0.1).masked_fill(x < -1, -1.0)
    return y, (x > 0) & (x < 1), (x.isnan() | (x == 0)).long().sum()


def nonzero(_, x):
    return torch.nonzero(x > 0), x[x > 0.5]


def boxes(_, x):
    scores, order = x[:, :, 0].topk(3, dim=1)
    return scores, torch.gather(x, 1, order.unsqueeze(-1).expand(-1, -1, x.shape[2]))


ACTIVATIONS = [
    nn.GELU(),
    nn.GELU(approximate="tanh"),
    nn.SiLU(),
    nn.Hardsigmoid(),
    nn.ELU(),
    nn.SELU(),
    nn.Softplus(),
    nn.Softsign(),
    nn.LeakyReLU(0.1),
    nn.PReLU(),
    nn.ReLU6(),
    nn.Hardtanh(),
    nn.LogSigmoid(),
]
# Exporters refuse some of these at some operator sets.
RARE_ACTIVATIONS = {
    "hardswish": nn.Hardswish(),
    "mish": nn.Mish(),
    "celu": nn.CELU(),
    "tanhshrink": nn.Tanhshrink(),
    "softshrink": nn.Softshrink(),
    "hardshrink": nn.Hardshrink(),
    "threshold": nn.Threshold(0.1, 0.2),
    "rrelu": nn.RReLU(),
    "softmin": nn.Softmin(1),
}


def activations(self, x):
    return torch.cat([part(x) for part in self.parts], 1)


def interpolate(mode, align=None, **how):
    return Function(lambda _, x: functional.interpolate(x, mode=mode, align_corners=align, **how))


def padded(mode, *pads):
    return Function(lambda _, x: functional.pad(x, pads, mode=mode))


PICTURE = floats("n", 8, 12, 16)
TOKENS = lambda n: (torch.randn(n, 7, 16),)  # noqa: E731
ENCODER = dict(d_model=16, nhead=2, dim_feedforward=32, dropout=0.0, batch_first=True)

# name -> (module, inputs of size n). The first axis of the first input is dynamic.
MODULES = {
    "conv1d": (lambda: nn.Sequential(nn.Conv1d(4, 8, 3, 2, 1), nn.ReLU(), nn.Conv1d(8, 6, 1)), floats("n", 4, 21)),
    "conv2d": (
        lambda: nn.Sequential(
            nn.Conv2d(8, 8, 3, padding="same"), nn.ReLU(), nn.Conv2d(8, 8, 5, 2, 2, padding_mode="circular")
        ),
        PICTURE,
    ),
    "conv3d": (lambda: nn.Conv3d(3, 5, 3, 1, 1), floats("n", 3, 6, 7, 8)),
    "conv_groups_dilated": (
        lambda: nn.Sequential(nn.Conv2d(8, 16, 3, 1, 2, 2, groups=4), nn.Conv2d(16, 16, 3, 1, 1, groups=16)),
        PICTURE,
    ),
    "conv_transpose": (
        lambda: nn.Sequential(nn.ConvTranspose2d(8, 6, 3, 2, 1, 1), nn.ConvTranspose2d(6, 6, 2, 2, groups=3)),
        PICTURE,
    ),
    "conv_transpose1d": (lambda: nn.ConvTranspose1d(4, 8, 4, 2, 1), floats("n", 4, 11)),
    "batch_norm": (lambda: nn.Sequential(nn.Conv2d(8, 8, 3), nn.BatchNorm2d(8), nn.ReLU()), PICTURE),
    "batch_norm1d": (lambda: nn.Sequential(nn.Linear(16, 12), nn.BatchNorm1d(12)), floats("n", 16)),
    "group_norm": (lambda: nn.GroupNorm(4, 8), PICTURE),
    "instance_norm": (lambda: nn.InstanceNorm2d(8, affine=True), PICTURE),
    "layer_norm": (lambda: nn.Sequential(nn.LayerNorm(16), nn.Linear(16, 8), nn.LayerNorm([7, 8])), TOKENS),
    "max_pool": (lambda: nn.Sequential(nn.MaxPool2d(3, 2, 1), nn.MaxPool2d(2, ceil_mode=True)), PICTURE),
    "max_pool_indices": (lambda: nn.MaxPool2d(2, return_indices=True), PICTURE),
    "average_pool": (
        lambda: nn.Sequential(nn.AvgPool2d(3, 2, 1), nn.AvgPool2d(2, ceil_mode=True, count_include_pad=False)),
        PICTURE,
    ),
    "adaptive_pool": (
        lambda: Function(
            lambda s, x: (
                functional.adaptive_avg_pool2d(x, 1),
                functional.adaptive_avg_pool2d(x, (3, 4)),
                functional.adaptive_max_pool2d(x, (2, 2)),
            )
        ),
        PICTURE,
    ),
    "lp_pool": (lambda: nn.LPPool2d(2, 3, 2), PICTURE),
    "linear": (lambda: nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4), nn.Softmax(-1)), floats("n", 16)),
    "bilinear": (
        lambda: Function(
            lambda s, x: torch.einsum("bi,oij,bj->bo", x, s.part.weight, x * 2) + s.part.bias,
            part=nn.Bilinear(16, 16, 5),
        ),
        floats("n", 16),
    ),
    "bilinear_layer": (lambda: Function(lambda s, x: s.part(x, x * 2), part=nn.Bilinear(16, 16, 5)), floats("n", 16)),
    "lstm": (lambda: recurrent(nn.LSTM(16, 12, 2, batch_first=True, bidirectional=True)), TOKENS),
    "lstm_state": (lambda: Function(lambda s, x: s.part(x), part=nn.LSTM(16, 12)), TOKENS),
    "gru": (lambda: recurrent(nn.GRU(16, 12, 2, batch_first=True)), TOKENS),
    "rnn": (lambda: recurrent(nn.RNN(16, 12, nonlinearity="relu", bidirectional=True)), TOKENS),
    "lstm_cell": (lambda: Function(lambda s, x: s.part(x), part=nn.LSTMCell(16, 12)), floats("n", 16)),
    "multihead_attention": (
        lambda: Function(lambda s, x: s.part(x, x, x), part=nn.MultiheadAttention(16, 4, batch_first=True)),
        TOKENS,
    ),
    "transformer_encoder": (
        lambda: nn.TransformerEncoder(nn.TransformerEncoderLayer(**ENCODER), 2, enable_nested_tensor=False),
        TOKENS,
    ),
    "transformer_decoder": (
        lambda: Function(lambda s, x: s.part(x, x), part=nn.TransformerDecoderLayer(**ENCODER, norm_first=True)),
        TOKENS,
    ),
    "attention_masked": (lambda: Function(masked_attention, qkv=nn.Linear(16, 48)), TOKENS),
    "attention_scaled": (lambda: Function(sdpa, qkv=nn.Linear(16, 48)), TOKENS),
    "embedding": (
        lambda: nn.Sequential(nn.Embedding(30, 8, padding_idx=0), nn.Linear(8, 4)),
        lambda n: (torch.randint(0, 30, (n, 5)),),
    ),
    "embedding_bag": (
        lambda: Function(lambda s, x: s.part(x), part=nn.EmbeddingBag(30, 8, mode="mean")),
        lambda n: (torch.randint(0, 30, (n, 5)),),
    ),
    "embedding_bag_offsets": (
        lambda: Function(lambda s, x: s.part(x, torch.tensor([0, 2, 5])), part=nn.EmbeddingBag(30, 8, mode="sum")),
        lambda n: (torch.randint(0, 30, (8,)),),
    ),
    "softmax": (lambda: Function(lambda s, x: (x.softmax(1), x.log_softmax(2), x.softmax(0))), TOKENS),
    "activations": (lambda: Function(activations, parts=nn.ModuleList(ACTIVATIONS)), floats("n", 16)),
    **{name: (lambda part=part: nn.Sequential(part), floats("n", 16)) for name, part in RARE_ACTIVATIONS.items()},
    "quantised": (
        lambda: Function(
            quantised,
            part=nn.Conv2d(8, 4, 3),
            scale=nn.Parameter(torch.tensor([0.01, 0.02, 0.015, 0.03]), False),
            zero=nn.Parameter(torch.zeros(4, dtype=torch.int32), False),
        ),
        PICTURE,
    ),
    "glu": (lambda: nn.GLU(1), PICTURE),
    "interpolate_nearest": (lambda: interpolate("nearest", scale_factor=2.0), PICTURE),
    "interpolate_bilinear": (lambda: interpolate("bilinear", False, scale_factor=1.5), PICTURE),
    "interpolate_aligned": (lambda: interpolate("bilinear", True, size=(17, 23)), PICTURE),
    "interpolate_bicubic": (lambda: interpolate("bicubic", False, scale_factor=2.0), PICTURE),
    "interpolate_linear": (lambda: interpolate("linear", False, scale_factor=2.0), floats("n", 4, 9)),
    "interpolate_trilinear": (lambda: interpolate("trilinear", False, scale_factor=2.0), floats("n", 2, 4, 5, 6)),
    "interpolate_area": (lambda: interpolate("area", size=(6, 8)), PICTURE),
    "pixel_shuffle": (lambda: nn.Sequential(nn.PixelShuffle(2), nn.PixelUnshuffle(2)), PICTURE),
    "channel_shuffle": (lambda: nn.ChannelShuffle(2), PICTURE),
    "grid_sample": (lambda: Function(grid), PICTURE),
    "pad_constant": (lambda: nn.ConstantPad2d((1, 2, 0, 3), 0.5), PICTURE),
    "pad_reflect": (lambda: padded("reflect", 1, 2, 3, 1), PICTURE),
    "pad_replicate": (lambda: padded("replicate", 1, 2, 3, 1), PICTURE),
    "pad_circular": (lambda: padded("circular", 1, 2, 3, 1), PICTURE),
    "einsum": (
        lambda: Function(
            lambda s, x: (
                torch.einsum("bij,bkj->bik", x, x),
                torch.einsum("bij->bj", x),
                torch.einsum("bij,jk->kbi", x, s.weight),
            ),
            weight=nn.Parameter(torch.randn(16, 4)),
        ),
        TOKENS,
    ),
    "topk_sort": (lambda: Function(lambda s, x: (*x.topk(3, 1), *x.sort(2, descending=True), x.argsort(1))), TOKENS),
    "topk_gather": (lambda: Function(boxes), TOKENS),
    "gather_scatter": (lambda: Function(scatter), floats("n", 6)),
    "cumsum": (lambda: Function(lambda s, x: (x.cumsum(1), x.cumsum(-1).flip(2))), TOKENS),
    "where_masks": (lambda: Function(masks), TOKENS),
    "nonzero": (lambda: Function(nonzero), TOKENS),
    "reductions": (lambda: Function(reductions), TOKENS),
    "rare_arithmetic": (lambda: Function(rare_arithmetic), TOKENS),
    "arithmetic": (lambda: Function(arithmetic), TOKENS),
    "unfold_fold": (lambda: nn.Sequential(nn.Unfold(3, padding=1), nn.Fold((12, 16), 3, padding=1)), PICTURE),
    "unfold": (lambda: nn.Unfold((2, 3), stride=2), PICTURE),
    "roll_windows": (lambda: Function(window_partition), lambda n: (torch.randn(n, 10, 8, 6),)),
    "complex_shapes": (lambda: Function(complex_shapes), PICTURE),
    "half": (lambda: Function(half_inside, part=nn.Linear(16, 8)), floats("n", 16)),
    "double": (lambda: nn.Sequential(nn.Linear(16, 8), nn.Tanh()).double(), lambda n: (torch.randn(n, 16).double(),)),
    "normalise": (
        lambda: Function(
            lambda s, x: (
                normalised(x),
                functional.normalize(x, dim=1),
                functional.cosine_similarity(x, x * 2 + 1, dim=-1),
            )
        ),
        TOKENS,
    ),
    "cdist": (
        lambda: Function(
            lambda s, x: torch.cdist(x, s.weight.expand(x.shape[0], 4, 16)), weight=nn.Parameter(torch.randn(4, 16))
        ),
        TOKENS,
    ),
    "stack_split": (
        lambda: Function(
            lambda s, x: torch.stack([*x.split([3, 5, 8], -1)[0:1], x[..., -3:]], 1).unbind(1) + tuple(x.chunk(3, 1))
        ),
        TOKENS,
    ),
    "tile_repeat": (
        lambda: Function(
            lambda s, x: (
                x.repeat(1, 2, 3),
                x.repeat_interleave(2, 1),
                torch.tril(x),
                x.unsqueeze(1).expand(-1, 3, -1, -1),
            )
        ),
        TOKENS,
    ),
    "integers": (
        lambda: Function(lambda s, x: (x // 3, x % 3, (x.float() / 3).int(), x << 1, x & 5)),
        lambda n: (torch.randint(0, 50, (n, 5)),),
    ),
    "weight_norm": (lambda: torch.nn.utils.parametrizations.weight_norm(nn.Conv1d(4, 6, 3)), floats("n", 4, 11)),
    "one_hot": (
        lambda: Function(lambda s, x: functional.one_hot(x, 30).float()),
        lambda n: (torch.randint(0, 30, (n, 5)),),
    ),
    "scripted_loop": (lambda: torch.jit.script(Scripted()), floats("n", 6)),
    "scripted_while": (lambda: torch.jit.script(ScriptedWhile()), floats("n", 6)),
    "scripted_list": (lambda: torch.jit.script(ScriptedList()), floats("n", 6)),
}
