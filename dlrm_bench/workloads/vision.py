"""Image classifiers in training: ViT-B/16 and ResNet-50, transformers' models in eager mode.

They have torchvision's layers and parameters; torchvision itself is not used, since its releases are bound to those of
torch and do not import beside another one.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from dlrm_bench.precisions import DTYPES
from dlrm_bench.records import Precision, Record
from dlrm_bench.workloads.base import Build, TrainingStep, Workload, transformers


class VitConfig(Record, frozen=True):
    """A vision transformer and its images.

    Attributes:
        hidden: width of the residual stream.
        layers: how many.
        heads: of the attention.
        intermediate: width of the MLP.
        image: pixels along an edge.
        patch: likewise of a patch.
        classes: to tell apart.
        batch: images at once.
        learning_rate: of AdamW.
    """

    hidden: int
    layers: int
    heads: int
    intermediate: int
    image: int
    patch: int
    classes: int
    batch: int
    learning_rate: float = 1e-3


class ResnetConfig(Record, frozen=True):
    """A residual network of bottleneck blocks and its images, which lie in memory channels last.

    Attributes:
        stem: channels behind the first convolution.
        widths: channels behind each stage.
        depths: blocks of each stage.
        image: pixels along an edge.
        classes: to tell apart.
        batch: images at once.
        learning_rate: of SGD with momentum.
    """

    stem: int
    widths: list[int]
    depths: list[int]
    image: int
    classes: int
    batch: int
    learning_rate: float = 0.1


def make_vit(config: VitConfig, build: Build, device: torch.device, precision: Precision) -> TrainingStep:
    """Build a vision transformer with AdamW."""
    described = transformers().ViTConfig(
        hidden_size=config.hidden,
        num_hidden_layers=config.layers,
        num_attention_heads=config.heads,
        intermediate_size=config.intermediate,
        image_size=config.image,
        patch_size=config.patch,
        num_labels=config.classes,
    )
    model = _classifier(described, device, precision, attn_implementation="sdpa")
    images, labels = _images(config.batch, config.image, config.classes, device, precision)
    optimizer = torch.optim.AdamW(model.parameters(), lr=config.learning_rate, fused=True)
    return TrainingStep(model, lambda: F.cross_entropy(model(images).logits, labels), [optimizer])


def make_resnet(config: ResnetConfig, build: Build, device: torch.device, precision: Precision) -> TrainingStep:
    """Build a residual network with SGD; its batch norms keep float32 weights and statistics, as is usual."""
    described = transformers().ResNetConfig(
        embedding_size=config.stem,
        hidden_sizes=config.widths,
        depths=config.depths,
        layer_type="bottleneck",
        num_labels=config.classes,
    )
    model = _classifier(described, device, precision).to(memory_format=torch.channels_last)
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.float()
    images, labels = _images(config.batch, config.image, config.classes, device, precision)
    images = images.contiguous(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), lr=config.learning_rate, momentum=0.9, fused=True)
    return TrainingStep(model, lambda: F.cross_entropy(model(images).logits, labels), [optimizer])


def _classifier(described: Any, device: torch.device, precision: Precision, **options: Any) -> Any:
    with torch.device(device):
        model = transformers().AutoModelForImageClassification.from_config(
            described, dtype=DTYPES[precision], **options
        )
    return model.train()


def _images(
    batch: int, edge: int, classes: int, device: torch.device, precision: Precision
) -> tuple[torch.Tensor, torch.Tensor]:
    images = torch.randn(batch, 3, edge, edge, dtype=DTYPES[precision], device=device)
    return images, torch.randint(classes, (batch,), device=device)


WORKLOADS = {
    each.name: each
    for each in (
        Workload(
            name="vit-b16-training",
            # 25,216 tokens a step, tens of milliseconds of matrix work.
            about="ViT-B/16, 128 images of 224 pixels, AdamW",
            mode="training",
            full=VitConfig(
                hidden=768, layers=12, heads=12, intermediate=3072, image=224, patch=16, classes=1000, batch=128
            ),
            tiny=VitConfig(hidden=64, layers=2, heads=4, intermediate=128, image=32, patch=16, classes=10, batch=2),
            make=make_vit,
        ),
        Workload(
            name="resnet50-training",
            # The batch that one GPU has in published runs on ImageNet.
            about="ResNet-50, 256 images of 224 pixels, channels last, SGD with momentum",
            mode="training",
            full=ResnetConfig(
                stem=64, widths=[256, 512, 1024, 2048], depths=[3, 4, 6, 3], image=224, classes=1000, batch=256
            ),
            tiny=ResnetConfig(stem=8, widths=[16, 32], depths=[1, 1], image=32, classes=10, batch=2),
            make=make_resnet,
        ),
    )
}
