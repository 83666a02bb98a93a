"""BERT-large, trained to fill in masked words: transformers' model in eager mode, with a fused AdamW."""

from __future__ import annotations

import torch
from torch import nn

from dlrm_bench.precisions import DTYPES
from dlrm_bench.records import Precision, Record
from dlrm_bench.workloads.base import Build, TrainingStep, Workload, transformers

IGNORED = -100
MASKED_SHARE = 0.15


class EncoderConfig(Record, frozen=True):
    """A BERT and the text that it is trained on.

    Attributes:
        hidden: width of the residual stream.
        layers: how many.
        heads: of the attention.
        intermediate: width of the MLP.
        vocabulary: tokens that there are.
        batch: sequences at once.
        tokens: of each.
        learning_rate: of AdamW.
    """

    hidden: int
    layers: int
    heads: int
    intermediate: int
    vocabulary: int
    batch: int
    tokens: int
    learning_rate: float = 1e-4


def make(config: EncoderConfig, build: Build, device: torch.device, precision: Precision) -> TrainingStep:
    """Build a BERT with dropout on, a batch without padding, and labels for 15% of its tokens."""
    library = transformers()
    described = library.BertConfig(
        hidden_size=config.hidden,
        num_hidden_layers=config.layers,
        num_attention_heads=config.heads,
        intermediate_size=config.intermediate,
        vocab_size=config.vocabulary,
        max_position_embeddings=config.tokens,
    )
    with torch.device(device):
        model: nn.Module = library.AutoModelForMaskedLM.from_config(
            described, dtype=DTYPES[precision], attn_implementation="sdpa"
        )
    model.train()
    tokens = torch.randint(config.vocabulary, (config.batch, config.tokens), device=device)
    masked = torch.rand(tokens.shape, device=device) < MASKED_SHARE
    labels = torch.where(masked, tokens, IGNORED)

    def loss() -> torch.Tensor:
        found: torch.Tensor = model(input_ids=tokens, labels=labels).loss
        return found

    return TrainingStep(model, loss, [torch.optim.AdamW(model.parameters(), lr=config.learning_rate, fused=True)])


WORKLOADS = {
    "bert-large-training": Workload(
        name="bert-large-training",
        # 16,384 tokens a step: the batch of a pre-training run on one GPU, tens of milliseconds of matrix work.
        about="BERT-large, masked words, 32 sequences of 512 tokens, AdamW",
        mode="training",
        full=EncoderConfig(
            hidden=1024, layers=24, heads=16, intermediate=4096, vocabulary=30_522, batch=32, tokens=512
        ),
        tiny=EncoderConfig(hidden=64, layers=2, heads=4, intermediate=128, vocabulary=512, batch=2, tokens=32),
        make=make,
    )
}
