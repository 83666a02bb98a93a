"""Decoders that generate text: a prefill of one billion parameters and a decoding step of seven.

Both are transformers' Llama with scaled dot-product attention, in eager mode.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from dlrm_bench.precisions import DTYPES
from dlrm_bench.records import Precision, Record
from dlrm_bench.workloads.base import Build, ForwardStep, Workload, transformers


class DecoderConfig(Record, frozen=True):
    """A Llama and the text that it is given.

    Attributes:
        hidden: width of the residual stream.
        layers: how many.
        heads: of the queries.
        key_value_heads: of the keys and values.
        intermediate: width of the gated MLP.
        vocabulary: tokens that there are.
        batch: sequences at once.
        context: tokens of each: those of a prefill, or those that a decoding step can look back on at most.
        tied: whether the embedding of the tokens is also the output's matrix.
        generated: tokens at the end of the context that decoding steps add before they start over; 0 in a prefill.
    """

    hidden: int
    layers: int
    heads: int
    key_value_heads: int
    intermediate: int
    vocabulary: int
    batch: int
    context: int
    tied: bool
    generated: int = 0


def make_prefill(config: DecoderConfig, build: Build, device: torch.device, precision: Precision) -> ForwardStep:
    """Build a decoder that reads prompts: all tokens at once, keys and values kept, logits of the last token."""
    model = _llama(config, device, precision)
    prompts = torch.randint(config.vocabulary, (config.batch, config.context), device=device)

    def forward() -> torch.Tensor:
        logits: torch.Tensor = model(input_ids=prompts, use_cache=True, logits_to_keep=1).logits
        return logits

    return ForwardStep(model, forward)


def make_decode(config: DecoderConfig, build: Build, device: torch.device, precision: Precision) -> Decoding:
    """Build a decoder that generates one token a sequence and step over a full static cache."""
    cache = transformers().StaticCache(config=_llama_config(config), max_cache_len=config.context)
    head_dim = config.hidden // config.heads
    cache.early_initialization(config.batch, config.key_value_heads, head_dim, DTYPES[precision], device)
    for layer in cache.layers:
        layer.keys.normal_()
        layer.values.normal_()
    token = torch.randint(config.vocabulary, (config.batch, 1), device=device)
    model = _llama(config, device, precision)
    # transformers 5 renamed it in one of its releases.
    named = "cache" if "cache" in inspect.signature(model.forward).parameters else "past_key_values"
    return Decoding(model, cache, token, config, named)


@dataclass
class Decoding:
    """A decoder in the middle of generating.

    Attributes:
        model: the decoder.
        cache: its keys and values.
        token: [batch, 1] int64, the last token of each sequence.
        config: of the model.
        cache_argument: what the model's `forward` calls the cache.
        parts: none.
    """

    model: nn.Module
    cache: Any
    token: torch.Tensor
    config: DecoderConfig
    cache_argument: str
    parts: dict[str, nn.Module] = field(default_factory=dict)
    _left: int = 0

    @torch.inference_mode()
    def step(self) -> torch.Tensor:
        """Add one token to every sequence; where the cache is full, go back to where it was left."""
        if self._left == 0:
            self._left = self.config.generated
            for layer in self.cache.layers:
                layer.cumulative_length.fill_(self.config.context - self.config.generated)
        self._left -= 1
        logits: torch.Tensor = self.model(
            input_ids=self.token, use_cache=True, **{self.cache_argument: self.cache}
        ).logits
        return logits


def _llama(config: DecoderConfig, device: torch.device, precision: Precision) -> nn.Module:
    library = transformers()
    with torch.device(device):
        model: nn.Module = library.AutoModelForCausalLM.from_config(
            _llama_config(config), dtype=DTYPES[precision], attn_implementation="sdpa"
        )
    return model.eval()


def _llama_config(config: DecoderConfig) -> Any:
    return transformers().LlamaConfig(
        hidden_size=config.hidden,
        num_hidden_layers=config.layers,
        num_attention_heads=config.heads,
        num_key_value_heads=config.key_value_heads,
        intermediate_size=config.intermediate,
        vocab_size=config.vocabulary,
        max_position_embeddings=config.context,
        tie_word_embeddings=config.tied,
    )


WORKLOADS = {
    each.name: each
    for each in (
        Workload(
            name="decoder-1b-prefill",
            # 8,192 tokens fill the matrix units: the step is tens of milliseconds of them.
            about="Llama of 1.2 billion parameters (the geometry of Llama 3.2 1B), 4 prompts of 2,048 tokens",
            mode="inference",
            full=DecoderConfig(
                hidden=2048,
                layers=16,
                heads=32,
                key_value_heads=8,
                intermediate=8192,
                vocabulary=128_256,
                batch=4,
                context=2048,
                tied=True,
            ),
            tiny=DecoderConfig(
                hidden=64,
                layers=2,
                heads=4,
                key_value_heads=2,
                intermediate=128,
                vocabulary=512,
                batch=2,
                context=32,
                tied=True,
            ),
            make=make_prefill,
        ),
        Workload(
            name="decoder-7b-decode",
            # 32 sequences of 2,048 tokens have 34 GB of keys and values beside 13 GB of weights, so that a step reads
            # device memory for longer than the host takes to launch it.
            about="Llama of 6.7 billion parameters (the geometry of Llama 7B), 1 token each for 32 sequences of 2,048",
            mode="inference",
            full=DecoderConfig(
                hidden=4096,
                layers=32,
                heads=32,
                key_value_heads=32,
                intermediate=11_008,
                vocabulary=32_000,
                batch=32,
                context=2048,
                tied=False,
                generated=128,
            ),
            tiny=DecoderConfig(
                hidden=64,
                layers=2,
                heads=4,
                key_value_heads=4,
                intermediate=128,
                vocabulary=512,
                batch=2,
                context=32,
                tied=False,
                generated=4,
            ),
            make=make_decode,
        ),
    )
}
