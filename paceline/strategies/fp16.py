"""Gradients in transit as float16."""

import torch

from paceline.strategies.codec import CastCodec


class Fp16Codec(CastCodec):
    """11 bits of precision, up to 65504."""

    dtype = torch.float16
