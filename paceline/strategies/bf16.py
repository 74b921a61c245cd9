"""Gradients in transit as bfloat16."""

import torch

from paceline.strategies.codec import CastCodec


class Bf16Codec(CastCodec):
    """8 bits of precision, the range of float32."""

    dtype = torch.bfloat16
