"""Small nets as torch modules, to be exported as ONNX files and trained on both sides."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F


class Block(nn.Module):

    def __init__(self, into, out, stride):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(into, out, 3, stride, 1, bias=False), nn.BatchNorm2d(out), nn.ReLU(),
                                  nn.Conv2d(out, out, 3, 1, 1, bias=False), nn.BatchNorm2d(out))
        self.shortcut = nn.Identity() if into == out and stride == 1 else nn.Sequential(
            nn.Conv2d(into, out, 1, stride, bias=False), nn.BatchNorm2d(out))

    def forward(self, x):
        return F.relu(self.body(x) + self.shortcut(x))


class Attention(nn.Module):

    def __init__(self, width, heads):
        super().__init__()
        self.heads, self.projection, self.output = heads, nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = self.projection(x).reshape(-1, length, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        scores = (q @ k.transpose(-2, -1)) / math.sqrt(width // self.heads)
        return self.output((scores.softmax(-1) @ v).transpose(1, 2).reshape(-1, length, width))


class Transformer(nn.Module):

    def __init__(self, vocabulary=40, length=24, width=32, layers=2):
        super().__init__()
        self.tokens, self.places = nn.Embedding(vocabulary, width), nn.Parameter(0.1 * torch.randn(length, width))
        self.layers = nn.ModuleList(
            nn.ModuleList([
                nn.LayerNorm(width),
                Attention(width, 4),
                nn.LayerNorm(width),
                nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
            ]) for _ in range(layers))
        self.head = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 10))

    def forward(self, x):
        x = self.tokens(x) + self.places
        for norm, attention, second_norm, feed_forward in self.layers:
            x = x + attention(norm(x))
            x = x + feed_forward(second_norm(x))
        return self.head(x.mean(1))


class Recurrent(nn.Module):

    def __init__(self, kind, layers):
        super().__init__()
        self.states = kind(3, 24, layers, batch_first=True)
        self.head = nn.Linear(24, 10)

    def forward(self, x):
        return self.head(self.states(x)[0][:, -1])


def double_convolution(into, out):
    return nn.Sequential(nn.Conv2d(into, out, 3, 1, 1), nn.BatchNorm2d(out), nn.ReLU(), nn.Conv2d(out, out, 3, 1, 1),
                         nn.BatchNorm2d(out), nn.ReLU())


class UNet(nn.Module):

    def __init__(self, width=8, classes=3):
        super().__init__()
        self.down, self.bottom = double_convolution(1, width), double_convolution(width, 2 * width)
        self.up = nn.ConvTranspose2d(2 * width, width, 2, 2)
        self.last = nn.Sequential(double_convolution(2 * width, width), nn.Conv2d(width, classes, 1))

    def forward(self, x):
        skip = self.down(x)
        return self.last(torch.cat([skip, self.up(self.bottom(F.max_pool2d(skip, 2)))], 1))


def lenet():
    return nn.Sequential(nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 16, 5), nn.ReLU(),
                         nn.MaxPool2d(2), nn.Flatten(), nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(),
                         nn.Linear(84, 10))


def resnet8():
    return nn.Sequential(nn.Conv2d(3, 16, 3, 1, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU(), Block(16, 16, 1),
                         Block(16, 32, 2), Block(32, 64, 2), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10))


# name -> (module, data): data is ("image", shape), ("tokens", length, vocabulary) or ("mask", shape, classes)
NETS = {
    "mlp": (lambda: nn.Sequential(nn.Linear(64, 96), nn.ReLU(), nn.Linear(96, 96), nn.ReLU(), nn.Linear(96, 10)),
            ("image", (64, ))),
    "lenet": (lenet, ("image", (1, 28, 28))),
    "resnet8": (resnet8, ("image", (3, 32, 32))),
    "transformer": (Transformer, ("tokens", 24, 40)),
    "lstm": (lambda: Recurrent(nn.LSTM, 1), ("image", (20, 3))),
    "gru": (lambda: Recurrent(nn.GRU, 2), ("image", (20, 3))),
    "unet": (UNet, ("mask", (1, 16, 16), 3)),
}
