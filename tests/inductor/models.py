"""Five small models."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn
from torch.nn import functional


class Mlp(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(32, 64), nn.Linear(64, 10)

    def forward(self, x):
        return functional.log_softmax(self.down(functional.gelu(self.up(x))), -1)


class Attention(nn.Module):
    def __init__(self, width: int, heads: int, causal: bool) -> None:
        super().__init__()
        self.heads, self.causal = heads, causal
        self.inputs, self.output = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x):
        batch, length, width = x.shape
        shaped = self.inputs(x).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        q, k, v = shaped.unbind(0)
        scores = q @ k.transpose(-1, -2) * (width // self.heads) ** -0.5
        if self.causal:
            later = torch.ones(length, length, dtype=torch.bool, device=x.device).triu(1)
            scores = scores.masked_fill(later, float("-inf"))
        mixed = torch.softmax(scores, -1) @ v
        return self.output(mixed.transpose(1, 2).reshape(batch, length, width))


class Block(nn.Module):
    def __init__(self, width: int, causal: bool) -> None:
        super().__init__()
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = Attention(width, 4, causal)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        x = x + self.attention(self.first(x))
        return x + self.down(functional.gelu(self.up(self.second(x)), approximate="tanh"))


class Gpt(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(50, 32), nn.Embedding(20, 32)
        self.block, self.last = Block(32, causal=True), nn.LayerNorm(32)

    def forward(self, tokens):
        places = torch.arange(tokens.shape[1], device=tokens.device)
        return self.last(self.block(self.words(tokens) + self.places(places))) @ self.words.weight.T


class Vit(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, 32, 4, 4)
        self.token = nn.Parameter(torch.randn(1, 1, 32) * 0.1)
        self.places = nn.Parameter(torch.randn(1, 17, 32) * 0.1)
        self.block, self.head = Block(32, causal=False), nn.Linear(32, 5)

    def forward(self, images):
        x = self.patches(images).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(len(x), -1, -1), x], 1) + self.places
        return self.head(self.block(x)[:, 0])


class ResNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = (nn.Conv2d(8, 8, 3, padding=1, bias=False) for _ in range(2))
        self.norms = nn.ModuleList(nn.BatchNorm2d(8) for _ in range(2))

    def forward(self, x):
        inner = functional.relu(self.norms[0](self.first(x)))
        return functional.relu(self.norms[1](self.second(inner)) + x).mean((2, 3))


class Mamba(nn.Module):
    """A gated linear recurrence over time, as a cumulative sum of logarithms and one of states."""

    def __init__(self) -> None:
        super().__init__()
        self.inputs, self.output = nn.Linear(16, 3 * 16), nn.Linear(16, 16)

    def forward(self, x):
        value, gate, decay = self.inputs(x).chunk(3, -1)
        kept = -functional.softplus(decay).cumsum(1)
        state = (value * torch.exp(-kept)).cumsum(1) * torch.exp(kept)
        return self.output(state * functional.silu(gate))


#: name -> the model, and its input
MODELS: dict[str, tuple[Callable[[], nn.Module], Callable[[], torch.Tensor]]] = {
    "mlp": (Mlp, lambda: torch.randn(24, 32)),
    "gpt_block": (Gpt, lambda: torch.randint(0, 50, (3, 20))),
    "vit_block": (Vit, lambda: torch.randn(2, 3, 16, 16)),
    "resnet_block": (ResNet, lambda: torch.randn(4, 8, 10, 10)),
    "mamba_scan": (Mamba, lambda: torch.randn(2, 24, 16)),
}
